package door_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Each refusal says what was wrong, with the request's id if there is one: without the id the official Go client ends its session. Invariant 7:
// it leaves nothing behind.
func TestRefusalsSayWhyAndLeaveNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		opened := 0
		app := &kit.Fake{OnOpen: func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) {
			opened++
			return &kit.Fake{}, nil
		}}
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{MaxBodyBytes: 4096}})
		before := c.Server().Stats()
		resting := len(kit.Goroutines())
		require.Positive(t, resting)
		for _, test := range kit.Refusals {
			method := test.Method
			if method == "" {
				method = http.MethodPost
			}
			body, res := kit.ReadAll(t, c.Do(kit.Request(t, method, test.Body, test.Header...)))
			require.Equal(t, test.Want, kit.Refusal(t, body, res), "%s: %s", test.Name, body)
			require.Contains(t, body, test.Says, test.Name)
			if res.StatusCode == http.StatusMethodNotAllowed {
				require.Equal(t, "GET, POST, DELETE", res.Header.Get("Allow"), test.Name)
			}
		}
		kit.Elapse(time.Second) // net/http waits a little before it closes the connection of a client that still sends
		after := c.Server().Stats()
		require.EqualValues(t, len(kit.Refusals), after.Refused)
		after.Refused = 0
		require.Equal(t, before, after)
		require.Equal(t, 1, opened, "the app was asked for no session")
		running := kit.Goroutines()
		require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
		c.Start("ping", nil).Result() // the session still works
	})
}

// A body without a Content-Length is refused in the same way.
func TestATooLargeBodyOfUnknownLength(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := rejointest.New(t, &kit.Fake{}, rejointest.Config{Server: rejoin.Config{MaxBodyBytes: 4096}})
		for _, test := range []struct{ body, want string }{
			{kit.Ping + strings.Repeat(" ", 5000), `413 error(-32600,"mine")`},
			{kit.Ping + strings.Repeat(" ", 4096-len(kit.Ping)), "200 result"},
		} {
			req := kit.Request(t, http.MethodPost, test.body)
			req.ContentLength = -1
			body, res := kit.ReadAll(t, c.Do(req))
			require.Equal(t, test.want, fmt.Sprintf("%d %s", res.StatusCode, kit.MessageSummary(body)))
		}
	})
}

// Two different values of a field that may have only one are refused. The same value twice is accepted.
func TestAmbiguousHeaders(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{})
		c.CallTool("x", nil)
		id := next().Session().ID()
		for _, test := range []struct {
			method, body, name string
			values             []string
			want               string
		}{
			{"POST", kit.Ping, "Mcp-Session-Id", []string{id, "other"}, `400 error(-32600,"mine")`},
			{"POST", kit.Ping, "Mcp-Session-Id", []string{id, id}, "200 result"},
			{"POST", kit.Initialize, "Mcp-Session-Id", []string{id, "other"}, `400 error(-32600,"mine")`},
			{"POST", kit.Ping, "Last-Event-Id", []string{"a", "b"}, "200 result"}, // the field has no meaning there
			{"GET", "", "Mcp-Session-Id", []string{id, "other"}, `400 error(-32600,null)`},
			{"GET", "", "Last-Event-Id", []string{"a", "b"}, `400 error(-32600,null)`},
			{"DELETE", "", "Mcp-Session-Id", []string{id, "other"}, `400 error(-32600,null)`},
		} {
			req := kit.Request(t, test.method, test.body)
			req.Header[test.name] = test.values
			body, res := kit.ReadAll(t, c.Do(req))
			require.Equal(t, test.want, fmt.Sprintf("%d %s", res.StatusCode, kit.MessageSummary(body)), "%+v", test)
		}
	})
}

// What is accepted although it is unusual: another known version than the session's, no version, types with parameters.
func TestWhatIsAcceptedToo(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{})
		for _, header := range [][]string{
			{"Mcp-Protocol-Version", kit.Legacy},
			{"Mcp-Protocol-Version", "2024-11-05"},
			{"Mcp-Protocol-Version", ""},
			{"Content-Type", "Application/JSON; charset=utf-8"},
			{"Accept", ""},
			{"Accept", "*/*"},
			{"Accept", "application/json"},
			{"Last-Event-ID", "nonsense"},
			{"Origin", ""},
		} {
			body, res := kit.Post(t, c, kit.Ping, header...)
			require.Equal(t, "200 result", fmt.Sprintf("%d %s", res.StatusCode, kit.MessageSummary(body)), header)
		}
		body, res := kit.Post(t, c, `{"jsonrpc":"2.0","method":"notifications/x"}`, "Accept", "text/html")
		require.Equal(t, http.StatusAccepted, res.StatusCode, "Accept is not looked at where there is no answer: %s", body)
		body, res = kit.Post(t, c, `{"jsonrpc":"2.0","id":"nobody.1","result":{}}`, "Accept", "text/html")
		require.Equal(t, http.StatusAccepted, res.StatusCode, "nor are answers that nobody waits for refused: %s", body)

		// Only initialize decides about the session: a client that polls does so with any later header.
		res = c.Do(kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","id":"mine","method":"x"}`, "Mcp-Protocol-Version", kit.Legacy, "Accept", "text/event-stream"))
		require.True(t, next().Resumable())
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	})
}

// Accept decides about the form of the answer.
func TestAcceptChoosesTheForm(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := rejointest.New(t, kit.Tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			return "done", h.Progress(1, 0, "")
		}), rejointest.Config{})
		const call = `{"jsonrpc":"2.0","id":"mine","method":"x","params":{"_meta":{"progressToken":1}}}`
		body, _ := kit.Post(t, c, call, "Accept", "application/json")
		require.Equal(t, "result", kit.MessageSummary(body), "progress is dropped where there is no stream")
		body, _ = kit.Post(t, c, call, "Accept", "text/event-stream")
		require.Equal(t, "primer@0 1:progress 2:result", kit.EventsSummary(body))
		body, _ = kit.Post(t, c, call)
		require.Equal(t, "primer@0 1:progress 2:result", kit.EventsSummary(body))
		body, _ = kit.Post(t, c, kit.Ping, "Accept", "text/event-stream")
		require.Equal(t, "primer@0 1:result", kit.EventsSummary(body))
	})
}

// Only the response of initialize has a session id.
func TestTheSessionIDIsNamedOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := rejointest.New(t, &kit.Fake{}, rejointest.Config{})
		body, res := kit.Post(t, c, kit.Initialize, "Mcp-Session-Id", "")
		require.Equal(t, "result", kit.MessageSummary(body))
		require.Regexp(t, `^[!-~]{20,}$`, res.Header.Get("Mcp-Session-Id"))
		_, res = kit.Post(t, c, kit.Ping)
		require.Empty(t, res.Header.Get("Mcp-Session-Id"))
		require.Len(t, kit.Sessions(c.Server()), 2)
	})
}

// The id of a request is kept after the request, so its length is limited.
func TestTheLengthOfAnID(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := rejointest.New(t, kit.Tool(func(context.Context, *rejoin.Handle) (any, error) { return "done", nil }), rejointest.Config{})
		id := `"` + strings.Repeat("x", 1022) + `"`
		body, res := kit.Post(t, c, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Contains(t, body, id)
		body, res = kit.Post(t, c, `{"jsonrpc":"2.0","id":"x`+id[1:]+`,"method":"ping"}`)
		require.Equal(t, http.StatusBadRequest, res.StatusCode)
		require.Contains(t, body, `"message":"the id is longer than 1024 bytes"`)
		require.Contains(t, body, id[1:], "it is the id of the refusal all the same")
	})
}
