package calls_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// spellings has ids. Those of one line have the same value, those of two lines have different values.
var spellings = [][]string{
	{`"a"`, `"\u0061"`},
	{`"2"`, `"\u0032"`},
	{`2`, `2.0`, `2e0`, `20E-1`, `0.2e1`},
	{`10`, `1e1`, `10.00`, `100e-1`},
	{`1.5`, `15e-1`, `1.50`},
	{`9007199254740993`, `9007199254740993.0`, `9.007199254740993e15`},
	{`9007199254740992`, `9007199254740992e0`},
	{`123456789012345678901234567890`, `1.2345678901234567890123456789e29`},
	{`123456789012345678901234567891`},
	{`1e999999999`, `10e999999998`, `0.01E+1000000001`},
	{`1e999999998`},
	{`"😀/"`, `"\ud83d\ude00\/"`},
	{`-0`, `0`, `0e5`},
}

// Requests are identified by the value of their id, in any spelling. Requests with all values are in flight at once. A second request with one
// of the values is refused in its own spelling, a cancellation in any spelling reaches the right request, and an answer has the spelling of its
// request.
func TestIDsAreComparedByValue(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Batches} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Version: version})
			session := sessionOf(c, next)
			var running []*kit.Response
			var tools []*kit.ManualTool
			for _, line := range spellings {
				running = append(running, kit.Serve(c.Server(), kit.InSession(t, session, kit.CallBody(line[len(line)-1], "{}"))))
				tools = append(tools, next())
			}
			for i, line := range spellings {
				for _, id := range line {
					second := kit.Serve(c.Server(), kit.InSession(t, session, kit.CallBody(id, "{}")))
					require.Equal(t, "400 error(-32600,"+id+") ended", second.Summary(), "while %s is in flight", line)
					if version == kit.Batches {
						second = kit.Serve(c.Server(), kit.InSession(t, session, "["+kit.CallBody(`"other"`, "{}")+","+kit.CallBody(id, "{}")+"]"))
						require.Equal(t, `400 error(-32600,"other") ended`, second.Summary())
					}
				}
				require.NoError(t, tools[i].Cause())
			}
			for i, line := range spellings {
				if i%2 == 0 {
					tools[i].Returns("done")
					require.Contains(t, running[i].Body.String(), `"id":`+line[len(line)-1]+`,"result":"done"`)
					continue
				}
				body, res := kit.Post(t, c, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+line[0]+`}}`)
				require.Equal(t, http.StatusAccepted, res.StatusCode, body)
				require.Equal(t, rejoin.ErrCancelled, tools[i].Cause(), line)
			}
			for i := range tools {
				require.Equal(t, i%2 == 0, tools[i].Cause() != rejoin.ErrCancelled, spellings[i])
			}
			for _, line := range spellings { // all ids are free again
				for _, id := range line {
					body, res := kit.Post(t, c, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
					require.Equal(t, http.StatusOK, res.StatusCode, body)
					require.Equal(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`, body)
				}
			}
		})
	}
}

// In a batch, two spellings of one value are the same id, which is refused. Two values are two ids.
func TestIDsOfABatchAreComparedByValue(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := kit.New(t, &kit.Fake{}, rejointest.Config{Version: kit.Batches})
		var all string
		for i, line := range spellings {
			for _, id := range line {
				body, res := kit.Post(t, c, "["+kit.CallBody(line[0], "{}")+","+kit.CallBody(id, "{}")+"]")
				require.Equal(t, "400 error(-32600,"+line[0]+")", kit.Refusal(t, body, res), "%s twice", id)
			}
			if all += "," + kit.CallBody(line[len(line)-1], "{}"); i == 0 {
				all = all[1:]
			}
		}
		body, res := kit.Post(t, c, "["+all+"]")
		require.Equal(t, http.StatusOK, res.StatusCode, body)
		for _, line := range spellings {
			require.Contains(t, body, `"id":`+line[len(line)-1]+`,"result"`)
		}
	})
}

// A value that is not an id, or that is too long for any accepted id, cancels nothing.
func TestWhatIsNoIDCancelsNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		session := sessionOf(c, next)
		var tools []*kit.ManualTool
		for _, id := range []string{`"null"`, `"true"`, `1`, `"{}"`} {
			kit.Serve(c.Server(), kit.InSession(t, session, kit.CallBody(id, "{}")))
			tools = append(tools, next())
		}
		for _, id := range []string{`null`, `true`, `{}`, `[1]`, `{"id":1}`, `1e` + zeros(1<<20), `1.` + zeros(1<<20), `"` + zeros(1<<20) + `"`} {
			body, res := kit.Post(t, c, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
			require.Equal(t, http.StatusAccepted, res.StatusCode, body)
		}
		for _, tool := range tools {
			require.NoError(t, tool.Cause())
			tool.Returns("done")
		}
	})
}

// sessionOf returns the id of the client's session, in which nothing runs afterwards.
func sessionOf(c *rejointest.Client, next func() *kit.ManualTool) string {
	c.CallTool("x", nil)
	tool := next()
	tool.Returns("done")
	return tool.Session().ID()
}

func zeros(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0'
	}
	return string(b)
}
