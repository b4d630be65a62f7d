package calls_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// openAs opens a session with that clientInfo and User-Agent, and returns its id.
func openAs(t *testing.T, s *rejoin.Server, version, clientInfo, agent string) string {
	t.Helper()
	body := strings.Replace(kit.Initialize, `{"name":"t","version":"1"}`, clientInfo, 1)
	body = strings.Replace(body, kit.Polling, version, 1)
	w := kit.Serve(s, kit.Request(t, http.MethodPost, body, "User-Agent", agent))
	require.Equal(t, "200 result ended", w.Summary())
	return w.Head.Get("Mcp-Session-Id")
}

const withProgress = `{"jsonrpc":"2.0","id":%d,"method":"x","params":{"_meta":{"progressToken":1}}}`

// Config.CanPoll decides for all versions, and gets the decision that would be made without it. A client that cannot poll is treated like a
// client of an older version: no primer, no retry, no close.
func TestCanPoll(t *testing.T) {
	for _, test := range []struct {
		version, client  string
		says             func(bool) bool // nil: no CanPoll
		presumed, closes bool
	}{
		{kit.Polling, "any", nil, true, true},
		{kit.Polling, "any", func(bool) bool { return false }, true, false},
		{kit.Polling, "any", func(presumed bool) bool { return presumed }, true, true},
		{kit.Legacy, "any", nil, false, false},
		{kit.Legacy, "any", func(bool) bool { return true }, false, true},
		{kit.Legacy, "any", func(presumed bool) bool { return presumed }, false, false},
		{kit.Polling, "ai-sdk-mcp-client", nil, false, false},
		{kit.Polling, "ai-sdk-mcp-client", func(bool) bool { return true }, false, true},
		{kit.Polling, "ai-sdk-mcp-client", func(presumed bool) bool { return presumed }, false, false},
	} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			asked := 0
			cfg := rejoin.Config{Policy: rejoin.Policy{CloseAfter: time.Minute}, Logger: kit.QuietLogger()}
			var polls []bool
			cfg.PolicyFor = func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy { polls = append(polls, r.Polls); return p }
			info := `{"name":"` + test.client + `","title":"A \u0041","version":"1.2"}`
			if test.says != nil {
				cfg.CanPoll = func(c rejoin.ClientInfo, presumed bool) bool {
					asked++
					require.Equal(t, test.presumed, presumed)
					require.JSONEq(t, info, string(c.Raw))
					require.Equal(t, []string{test.client, "A A", "1.2", test.version, "me/1", kit.Capabilities},
						[]string{c.Name, c.Title, c.Version, c.Protocol, c.UserAgent, string(c.Capabilities)})
					return test.says(presumed)
				}
			}
			s := kit.NewServer(t, app, cfg)
			id := openAs(t, s, test.version, info, "me/1")
			require.Equal(t, map[bool]int{true: 1}[test.says != nil], asked, "once a session")
			w := kit.Serve(s, kit.InSession(t, id, fmt.Sprintf(withProgress, 1)))
			tool := next()
			require.NoError(t, tool.Progress(1, 0, ""))
			require.Equal(t, test.closes, tool.Resumable())
			require.Equal(t, []bool{false, test.closes}, polls)
			require.Equal(t, test.closes, kit.Sessions(s)[0].Polls)
			if test.closes {
				require.NoError(t, tool.CloseStream(0))
				require.Equal(t, "200 sse primer@0 1:progress retry ended", w.Summary(), "%+v", test)
				tool.Returns("done")
				return
			}
			require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrNotResumable)
			kit.Elapse(2 * time.Minute)
			require.Equal(t, "200 sse comment 1:progress"+strings.Repeat(" comment", 8)+" open", w.Summary(), "%+v", test)
			tool.Returns("done")
			require.Contains(t, w.Summary(), "2:result ended")
		})
	}
}

// Clients that negotiate 2025-11-25 and do not poll, recognised by how they identify themselves. Module conformance runs the real ones.
func TestClientsThatAreKnownNotToComeBack(t *testing.T) {
	for _, test := range []struct {
		why, info, agent string
		polls            bool
	}{
		{"@ai-sdk/mcp, of all releases", `{"name":"ai-sdk-mcp-client","version":"1.0.0"}`, "ai-sdk/0.0.0-test runtime/node.js/22", false},
		{"without the header", `{"name":"ai-sdk-mcp-client","version":"9.9.9"}`, "", false},
		{"within an application that names itself", `{"name":"My App","version":"7"}`, "my-app ai-sdk/2.0.99 node.js/22", false},
		{"another of a name like it", `{"name":"ai-sdk-mcp-client-2","version":"1.0.0"}`, "node", true},
		{"java-sdk", `{"name":"Java SDK MCP Client","version":"0.15.0"}`, "", false},
		{"java-sdk within an application", `{"name":"spring","version":"1"}`, "Java-http-client/21.0.4", false},
		{"rmcp", `{"name":"rmcp","version":"1.5.0"}`, "", false},
		{"rmcp, the last of them", `{"name":"rmcp","version":"2.2.0"}`, "", false},
		{"rmcp of no known version", `{"name":"rmcp"}`, "", false},
		{"rmcp that resumes", `{"name":"rmcp","version":"3.0.0"}`, "", true},
		{"rmcp, far later", `{"name":"rmcp","version":"10.1"}`, "", true},
		{"no name at all", `{}`, "", true},
		{"what is no object", `"ai-sdk-mcp-client"`, "", true},
	} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			s := kit.NewServer(t, app, rejoin.Config{Logger: kit.QuietLogger(), Policy: rejoin.Policy{CloseAfter: time.Second}})
			id := openAs(t, s, kit.Polling, test.info, test.agent)
			require.Equal(t, test.polls, kit.Sessions(s)[0].Polls, test.why)
			w := kit.Serve(s, kit.InSession(t, id, fmt.Sprintf(withProgress, 1)))
			kit.Elapse(5 * time.Second)
			next().Returns("done")
			require.Equal(t, map[bool]string{true: "200 sse primer@0 retry ended", false: "200 sse comment 1:result ended"}[test.polls], w.Summary(), test.why)
		})
	}
}

// An unknown client does not poll: it loses the call whose stream was closed, and no other call. This is logged once.
func TestASessionLearnsThatItsClientDoesNotComeBack(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		logged := &kit.Log{}
		var polls []bool
		s := kit.NewServer(t, app, rejoin.Config{
			Policy: rejoin.Policy{CloseAfter: 20 * time.Second}, KeepAlive: -1, Logger: slog.New(slog.NewTextHandler(logged, nil)),
			PolicyFor: func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy { polls = append(polls, r.Polls); return p },
		})
		for session, client := range []string{"Renamed AI", "Renamed AI", "Other"} {
			id := openAs(t, s, kit.Polling, `{"name":"`+client+`","version":"1.0"}`, "")
			call := func(n int) (*kit.Response, *kit.ManualTool) {
				return kit.Serve(s, kit.InSession(t, id, fmt.Sprintf(withProgress, n))), next()
			}
			began := time.Now()
			w1, lost := call(1)
			kit.Elapse(15 * time.Second)
			w2, second := call(2) // this call runs already when the stream of the first one is closed
			kit.Elapse(5 * time.Second)
			require.Equal(t, "200 sse primer@0 retry ended", w1.Summary())
			kit.Elapse(time.Second + 10*time.Second + time.Second)
			require.EqualValues(t, session+1, s.Stats().Doubted)
			require.False(t, second.Resumable())
			w3, third := call(3)
			require.ErrorIs(t, third.CloseStream(0), rejoin.ErrNotResumable)
			require.NoError(t, lost.CloseStream(0), "its client is away already")
			kit.Elapse(5 * time.Minute)
			second.Returns("two")
			third.Returns("three")
			require.Equal(t, "200 sse primer@0 1:result ended", w2.Summary())
			require.Equal(t, "200 sse primer@0 1:result ended", w3.Summary())
			require.NoError(t, lost.Cause())
			kit.Elapse(11*time.Minute - time.Since(began))
			require.ErrorIs(t, lost.Cause(), rejoin.ErrAbandoned)
		}
		require.Equal(t, []bool{false, true, true, false}, polls[:4], "initialize, and three calls")
		require.Equal(t, 1, logged.Count(`client="Renamed AI" version=1.0 protocol=2025-11-25`), "once for each client and version: %s", logged.All)
		require.Equal(t, 1, logged.Count(`client=Other version=1.0`))
		require.Equal(t, 2, logged.Count("Config.CanPoll"), "it says what to set")
		require.EqualValues(t, 3, s.Stats().Closed)
	})
}

// A client that polls late can poll. From then on its streams are closed as before, also if it is late again.
func TestAClientThatComesBackLateIsBelieved(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{CloseAfter: 20 * time.Second}, Logger: kit.QuietLogger()}})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.CloseStream(0))
		kit.Elapse(13 * time.Second)
		require.EqualValues(t, 1, c.Server().Stats().Doubted)
		other := c.CallTool("y", nil)
		wise := next()
		require.ErrorIs(t, wise.CloseStream(0), rejoin.ErrNotResumable)
		kit.Elapse(30 * time.Second)
		require.Equal(t, 1, other.Open())
		call.Poll()
		require.Equal(t, 0, other.Open(), "CloseAfter was due already")
		require.True(t, tool.Resumable())
		require.NoError(t, tool.CloseStream(0))
		kit.Elapse(time.Minute)
		call.Poll()
		other.Poll()
		tool.Returns("done")
		wise.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, `"done"`, string(other.Result()))
		require.EqualValues(t, 1, c.Server().Stats().Doubted)
	})
}

// What does not show that a client cannot poll: its user cancelled, its connection broke, it no longer wanted the standalone stream, or the
// result is there.
func TestWhatRaisesNoDoubt(t *testing.T) {
	for name, summary := range map[string]func(c *rejointest.Client, call *rejointest.Call, tool *kit.ManualTool){
		"cancelled": func(_ *rejointest.Client, call *rejointest.Call, tool *kit.ManualTool) {
			_ = tool.CloseStream(0)
			call.Cancel("the user gave up")
		},
		"cut": func(_ *rejointest.Client, call *rejointest.Call, tool *kit.ManualTool) {
			_ = tool.Progress(1, 0, "")
			call.Cut()
		},
		"read to its end": func(_ *rejointest.Client, call *rejointest.Call, tool *kit.ManualTool) {
			_ = tool.Progress(1, 0, "")
			tool.Returns("done")
		},
		"the standalone stream": func(c *rejointest.Client, _ *rejointest.Call, tool *kit.ManualTool) {
			c.Listen()
			_ = tool.CloseStandaloneStream(0)
		},
	} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Logger: kit.QuietLogger()}})
			call := c.CallTool("x", nil)
			summary(c, call, next())
			kit.Elapse(5 * time.Minute)
			require.Zero(t, c.Server().Stats().Doubted, name)
			later := c.CallTool("x", nil)
			require.NoError(t, next().CloseStream(0), name)
			require.Equal(t, "200 sse primer@0 retry closed", kit.Last(later))
		})
	}
}

// Closes, polls and the moment at which the server begins to doubt happen at the same time. In every order the tool gets the right answer: if
// its close was refused, its client still reads, and gets the rest on that connection.
func TestDoubtCrossesClosesAndPolls(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const calls = 40
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Logger: kit.QuietLogger()}})
		first := c.CallTool("x", nil)
		missing := next()
		require.NoError(t, missing.CloseStream(0))
		away := first.WaitClosed()
		var all []*rejointest.Call
		var tools []*kit.ManualTool
		for range calls {
			all = append(all, c.CallTool("x", nil))
			tools = append(tools, next())
			require.NoError(t, tools[len(tools)-1].Progress(1, 0, ""))
		}
		kit.Elapse(away + 10*time.Second - time.Millisecond)
		closed := make([]chan error, calls)
		for i, tool := range tools {
			closed[i] = make(chan error, 1)
			go func() {
				<-time.After(time.Millisecond) // at the same time as the timer of the doubt
				closed[i] <- tool.CloseStream(0)
			}()
		}
		go func() {
			<-time.After(time.Millisecond)
			first.Poll()
		}()
		kit.Elapse(time.Second / 2)
		for i, tool := range tools {
			err := <-closed[i]
			if err != nil {
				require.ErrorIs(t, err, rejoin.ErrNotResumable)
				require.Equal(t, 1, all[i].Open(), "it still reads")
			}
			tool.Returns("done")
			if err == nil {
				require.Contains(t, kit.Last(all[i]), "retry closed")
				all[i].Poll()
			}
			require.NotContains(t, kit.Last(all[i]), "error")
			require.Equal(t, `"done"`, string(all[i].Result()))
		}
		missing.Returns("done")
		require.Equal(t, `"done"`, string(first.Result()))
	})
}
