package calls_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

type valueKey struct{}

// withValue is a middleware that puts the header field X-Value into the request's context.
func withValue(s *rejoin.Server) http.Handler {
	h := stdadapter.New(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), valueKey{}, r.Header.Get("X-Value")), time.Hour)
		defer cancel() // as any middleware may do
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Invariant 6: the values of the request's context stay valid after the request; its end and its deadline do not count. The values are those of
// the request with the call, never those of initialize.
func TestContextValuesOutliveTheRequest(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Header: http.Header{"X-Value": {"initialize"}}, Handler: withValue})
		var tools []*kit.ManualTool
		for i := range 8 {
			res := c.Do(kit.Request(t, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":"id%d","method":"x"}`, i), "X-Value", fmt.Sprint(i)))
			tools = append(tools, next())
			_ = res.Body.Close() // the client disconnects
		}
		kit.Elapse(2 * time.Minute)
		for i, tool := range tools {
			require.Equal(t, fmt.Sprint(i), tool.Ctx.Value(valueKey{}))
			require.NoError(t, tool.Ctx.Err())
			_, some := tool.Ctx.Deadline()
			require.False(t, some, "a middleware's deadline is the request's, not the call's")
			require.Same(t, c.Server(), rejoin.ServerFromContext(tool.Ctx))
			child := context.WithValue(tool.Ctx, valueKey{}, "another")
			require.Same(t, tool.Handle, rejoin.HandleFromContext(child), "at any depth")
			tool.Returns("done")
			require.Equal(t, fmt.Sprint(i), tool.Ctx.Value(valueKey{}), "after the call too")
		}
	})
}

// Notifications have the values of their own request, which also stay valid after it, until the session ends.
func TestContextOfANotification(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var got context.Context
		var params json.RawMessage
		var header http.Header
		c := kit.New(t, &kit.Fake{OnNotification: func(n *rejoin.Notification) {
			if n.Method() == "notifications/x" {
				got, params, header = n.Context(), n.Params(), n.Header()
			}
		}}, rejointest.Config{Handler: withValue})
		body, res := kit.Post(t, c, `{"jsonrpc":"2.0","method":"notifications/x","params":{"n":1}}`, "X-Value", "mine")
		require.Equal(t, http.StatusAccepted, res.StatusCode)
		require.Empty(t, body)
		kit.Elapse(20 * time.Minute)
		require.NoError(t, got.Err())
		_, some := got.Deadline()
		require.False(t, some, "a middleware's deadline is the request's, not the notification's")
		kit.Elapse(2 * time.Hour)
		require.ErrorIs(t, got.Err(), context.Canceled, "the session has been idle for too long")
		require.ErrorIs(t, context.Cause(got), rejoin.ErrSessionEnded)
		require.Equal(t, "mine", got.Value(valueKey{}))
		require.Same(t, c.Server(), rejoin.ServerFromContext(got))
		require.ErrorIs(t, rejoin.HandleFromContext(got).CloseStream(0), rejoin.ErrNoCall)
		require.JSONEq(t, `{"n":1}`, string(params))
		require.Equal(t, "mine", header.Get("X-Value"))
	})
}

// Bytes that an app gets belong to the app: other requests do not change them.
func TestParamsStayAsTheyWere(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		kit.Bubble(t, func(t *testing.T) {
			var calls []*rejoin.Call
			app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
				if c.Method() != "initialize" {
					calls = append(calls, c)
				}
				kit.Accept(c)
			}}
			c := kit.New(t, app, rejointest.Config{})
			send := func(i int) string {
				text := strings.Repeat(string(rune('a'+i%26)), 100+i)
				req := kit.Request(t, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":"id%d","method":"m%d","params":{"text":%q}}`, i, i, text))
				if chunked {
					req.ContentLength = -1
				}
				_, res := kit.ReadAll(t, c.Do(req))
				require.Equal(t, http.StatusOK, res.StatusCode)
				return fmt.Sprintf(`{"text":%q}`, text)
			}
			var want []string
			for i := range 100 {
				want = append(want, send(i))
			}
			for i, call := range calls {
				require.Equal(t, want[i], string(call.Params()))
				require.Equal(t, fmt.Sprintf("m%d", i), call.Method())
				require.Equal(t, fmt.Sprintf(`"id%d"`, i), string(call.ID()))
				require.Contains(t, string(call.Raw()), want[i])
				require.Equal(t, "application/json", call.Header().Get("Content-Type"))
			}
		})
	}
}

// Of a request only what the app may use is kept, neither the request itself nor its writer.
func TestNoRequestOrWriterOutlivesItsHandler(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		c.CallTool("x", nil)
		id := next().Session().ID()
		var gone atomic.Int32 // a finalizer runs outside the bubble
		func() {
			ctx, cancel := context.WithCancel(context.Background())
			r := kit.InSession(t, id, `{"jsonrpc":"2.0","id":"mine","method":"x"}`).WithContext(ctx)
			w := &kit.Response{Head: http.Header{}}
			runtime.SetFinalizer(r, func(*http.Request) { gone.Add(1) })
			runtime.SetFinalizer(w, func(*kit.Response) { gone.Add(1) })
			done := make(chan struct{})
			go func() { c.Server().Serve(w, r); close(done) }()
			tool := next()
			_ = tool.Progress(1, 0, "")
			synctest.Wait()
			cancel()
			<-done
		}()
		for i := 0; i < 1000 && gone.Load() < 2; i++ {
			runtime.GC()
			runtime.Gosched()
		}
		require.EqualValues(t, 2, gone.Load(), "the call still runs, and keeps what was the request's")
	})
}
