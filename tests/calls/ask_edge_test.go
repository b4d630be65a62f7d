package calls_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// No question is sent when no tool waits for the answer: after the end of the call, and after the tool has given up. A client would open a
// dialog in vain.
func TestNobodyIsAskedInVain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		listen := c.Listen()
		call := c.CallTool("x", nil)
		tool := next()
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errBusy)
		for range 50 { // a select that chose at random would sometimes send it
			require.Equal(t, errBusy, tool.Ask(ctx, "roots/list", nil, nil))
		}
		require.Equal(t, "open", kit.Last(call), "not even a stream")
		tool.Returns("done")
		for range 50 {
			require.Equal(t, rejoin.ErrEnded, tool.Ask(context.Background(), "roots/list", nil, nil))
		}
		require.Equal(t, "200 result answered", kit.Last(call))
		cancelled := c.CallTool("x", nil)
		tool = next()
		cancelled.Cancel("")
		for range 50 {
			require.Equal(t, rejoin.ErrCancelled, tool.Ask(context.Background(), "roots/list", nil, nil))
		}
		require.Equal(t, "200 sse primer@0 open", kit.Last(listen))
	})
}

// An answer counts only from the user of the session, in the session that was asked, and with the id that was sent.
func TestAnswersOfOthers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		onRequest, _ := silent(t)
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{
			OnRequest: onRequest, Header: http.Header{"User": {"alice"}},
			Server: rejoin.Config{Node: "17", Principal: func(r *http.Request) string { return r.Header.Get("User") }},
		})
		call := c.CallTool("x", nil)
		tool := next()
		got := tool.Asks(tool.Ctx, "roots/list")
		require.Equal(t, []string{`"17.1"`}, asked(t, call.Messages()))
		const right = `{"jsonrpc":"2.0","id":"17.1","result":"yes"}`
		for _, test := range []struct {
			body, user, session string
			status              int
		}{
			{right, "mallory", "", http.StatusNotFound},
			{right, "alice", "nobody", http.StatusNotFound},
			{strings.Replace(right, `"17.1"`, `17.1`, 1), "alice", "", http.StatusAccepted},
			{strings.Replace(right, `"17.1"`, `"17.10"`, 1), "alice", "", http.StatusAccepted},
			{strings.Replace(right, `"17.1"`, `"17.1 "`, 1), "alice", "", http.StatusAccepted},
			{strings.Replace(right, `"17.1"`, `null`, 1), "alice", "", http.StatusBadRequest},
		} {
			header := []string{"User", test.user}
			if test.session != "" {
				header = append(header, "Mcp-Session-Id", test.session)
			}
			body, res := kit.Post(t, c, test.body, header...)
			require.Equal(t, test.status, res.StatusCode, "%+v %s", test, body)
			require.Empty(t, got, "%+v", test)
		}
		// JSON may spell the same string differently.
		_, res := kit.Post(t, c, strings.Replace(right, `"17.1"`, `"\u00317.1"`, 1))
		require.Equal(t, http.StatusAccepted, res.StatusCode)
		require.Equal(t, `"yes"`, <-got)
		require.Equal(t, "200 sse primer@0 roots/list open", strings.Replace(kit.Last(call), "1:", "", 1), "refusals of others do not show")
	})
}

// The open questions of a call are withdrawn in the order in which they were asked, before its error or its result. Those of another call are
// not.
func TestQuestionsAreWithdrawnInOrder(t *testing.T) {
	for name, end := range map[string]func(*kit.ManualTool){
		"result": func(p *kit.ManualTool) { p.Returns("done") },
		"error(-32000,2) max_runtime": func(p *kit.ManualTool) {
			_ = p.SetPolicy(rejoin.Policy{MaxRuntime: time.Minute})
			kit.Elapse(time.Minute)
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				onRequest, _ := silent(t)
				app, next := kit.ManualTools()
				c := kit.New(t, app, rejointest.Config{OnRequest: onRequest, Server: rejoin.Config{Node: "n"}})
				call := c.CallTool("x", nil)
				tool := next()
				other := c.CallTool("x", nil)
				otherTool := next()
				var want []string
				errs := make(chan error, 20)
				for i := range 12 {
					tool.Session().AskFunc(tool.Ctx, "roots/list", nil, func(_ json.RawMessage, err error) { errs <- err })
					want = append(want, fmt.Sprintf("cancelled(n.%d)", i+1))
				}
				left := otherTool.Asks(otherTool.Ctx, "roots/list")
				end(tool)
				require.Equal(t, strings.Repeat("roots/list ", 12)+strings.Join(want, " ")+" "+name, told(t, call.Messages()))
				require.Len(t, errs, 12)
				require.Equal(t, "roots/list", told(t, other.Messages()))
				require.Empty(t, left)
			})
		})
	}
}

// A question for which the store has no room fails alone. The questions before it are answered, and so is the call.
func TestAQuestionWithoutRoom(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		onRequest, _ := silent(t)
		app, next := kit.ManualTools()
		store := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 64 << 10})
		c := kit.New(t, app, rejointest.Config{OnRequest: onRequest, Server: rejoin.Config{Node: "n", Store: store}})
		call := c.CallTool("x", nil)
		tool := next()
		got := tool.Asks(tool.Ctx, "roots/list")
		call.Cut()
		n := kit.Fill(t, tool, 0)
		byAsk := make(chan error, 2)
		tool.Session().AskFunc(tool.Ctx, "x", json.RawMessage(`"`+strings.Repeat("x", 5000)+`"`), func(_ json.RawMessage, err error) { byAsk <- err })
		require.Equal(t, rejoin.ErrFull, <-byAsk)
		require.Empty(t, got)
		answers(`"result":"yes"`)(t, &place{c: c})
		require.Equal(t, `"yes"`, <-got)
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, "roots/list"+strings.Repeat(" progress", n)+" result", told(t, call.Messages()), "it is on no stream, and nor is its withdrawal")
		require.Empty(t, byAsk)
	})
}

// A callback that panics does no harm: a goroutine of the server calls it.
func TestAReplyThatPanics(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{
			OnRequest: func(string, json.RawMessage) (any, error) { return 1, nil }, Server: rejoin.Config{Logger: kit.QuietLogger()},
		})
		call := c.CallTool("x", nil)
		tool := next()
		calls := 0
		panics := func(json.RawMessage, error) { calls++; panic("mine") }
		tool.Session().AskFunc(tool.Ctx, "roots/list", nil, panics)
		synctest.Wait()
		require.Equal(t, 1, calls, "answered")
		tool.Session().AskFunc(tool.Ctx, "roots/list", json.RawMessage(strings.Repeat(" ", 17<<20)), panics)
		synctest.Wait()
		require.Equal(t, 2, calls, "not sent")
		require.NoError(t, tool.Cause())
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		tool.Session().AskFunc(context.Background(), "roots/list", nil, panics)
		c.Delete()
		require.Equal(t, 3, calls, "ended")
	})
}
