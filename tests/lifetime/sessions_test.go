package lifetime_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// If there are MaxSessions sessions, a new one replaces the oldest session whose client has not come back within 30 seconds after initialize, or
// else the session that has been idle for longest, if that is at least five minutes.
func TestMaxSessions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var ended []error
		app := &kit.Fake{OnEnded: func(cause error) { ended = append(ended, cause) }}
		s := kit.NewServer(t, app, rejoin.Config{MaxSessions: 3})
		var ids []string
		open := func() {
			id, refused := kit.Open(t, s)
			require.Empty(t, refused)
			ids = append(ids, id)
			kit.Elapse(time.Second)
		}
		open()
		open()
		open()
		require.Equal(t, http.StatusAccepted, kit.Notify(t, s, ids[0], "notifications/initialized"))
		kit.Elapse(26 * time.Second)
		_, refused := kit.Open(t, s)
		require.Equal(t, full, refused, "all are younger than 30 s")
		require.Empty(t, ended, "the app was asked for nothing")
		kit.Elapse(2 * time.Second)
		open() // it replaces the second one, whose client sent nothing
		require.Equal(t, []error{rejoin.ErrSessionEnded}, ended)
		require.Equal(t, http.StatusNotFound, kit.Notify(t, s, ids[1], "notifications/x"))
		require.Equal(t, http.StatusAccepted, kit.Notify(t, s, ids[0], "notifications/x"))
		require.Equal(t, http.StatusAccepted, kit.Notify(t, s, ids[2], "notifications/initialized"), "it was late, and in time")
		require.Equal(t, http.StatusAccepted, kit.Notify(t, s, ids[3], "notifications/initialized"))
		kit.Elapse(5*time.Minute - time.Nanosecond)
		_, refused = kit.Open(t, s)
		require.Equal(t, full, refused, "those that have spoken make none")
		require.EqualValues(t, 3, s.Stats().Sessions)
		r := kit.InSession(t, ids[0], "")
		r.Method = http.MethodDelete
		require.Equal(t, "204 ended", kit.Serve(s, r).Summary())
		open()
	})
}

// A session belongs to its user. For other users it does not exist, on any verb, and is answered like an unknown session.
func TestASessionAnswersOnlyToItsUser(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{
			Header: http.Header{"X-User": {"ann"}},
			Server: rejoin.Config{Principal: func(r *http.Request) string { return r.Header.Get("X-User") }},
		})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		require.Equal(t, "ann", tool.Session().Principal())
		cursor := call.IDs()[1]
		bodies := map[string]bool{}
		for _, user := range []string{"bob", "Ann", ""} {
			for _, req := range []*http.Request{
				kit.Request(t, "POST", kit.Ping, "X-User", user),
				kit.Request(t, "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, "X-User", user),
				kit.Request(t, "POST", `[`+kit.Ping+`]`, "X-User", user),
				kit.Request(t, "GET", "", "X-User", user),
				kit.Request(t, "GET", "", "X-User", user, "Last-Event-ID", cursor),
				kit.Request(t, "DELETE", "", "X-User", user),
				kit.Request(t, "POST", kit.Ping, "X-User", "ann", "Mcp-Session-Id", "never-was"),
			} {
				body, res := kit.ReadAll(t, c.Do(req))
				require.Equal(t, "404 error(-32001,null)", kit.Refusal(t, body, res), "%s %s", user, req.Method)
				bodies[body] = true
			}
		}
		require.Len(t, bodies, 1)
		require.NoError(t, tool.Cause())
		require.Equal(t, 1, call.Open())
	})
}

// MaxConcurrent limits the requests in flight of a session. Parked calls count, answered ones do not.
func TestMaxConcurrent(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{MaxConcurrent: 2}})
		first := c.CallTool("x", nil)
		t1 := next()
		require.NoError(t, t1.CloseStream(0))
		first.WaitClosed()
		c.CallTool("x", nil)
		t2 := next()
		for range 3 {
			call := c.Start("x", nil)
			require.Equal(t, fmt.Sprintf("429 error(-32000,%s) answered", call.ID()), kit.Last(call))
			require.NotEmpty(t, call.Header().Get("Retry-After"))
			require.Equal(t, `{}`, string(c.Start("ping", nil).Result()), "a ping is always answered")
		}
		t2.Returns("done")
		require.Equal(t, `{}`, string(c.Start("ping", nil).Result()))
		t1.Returns("done")
		require.Equal(t, `"done"`, string(first.Result()))
	})
}

// After its end a session can do nothing, and calling it does no harm.
func TestASessionAfterItsEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{})
		c.CallTool("x", nil)
		tool := next()
		s := tool.Session()
		require.Equal(t, kit.Polling, s.Version())
		done := s.Done()
		require.Nil(t, s.SavedState())
		require.NoError(t, s.SaveState([]byte("w")))
		require.NoError(t, s.SaveState([]byte("x")))
		require.Equal(t, "x", string(s.SavedState()))
		select {
		case <-done:
			t.Fatal("it is not over")
		default:
		}
		s.End(errors.New("enough"))
		s.End(nil)
		<-done
		<-s.Done()
		synctest.Wait()
		require.ErrorIs(t, tool.Cause(), rejoin.ErrSessionEnded)
		require.ErrorIs(t, s.Notify(tool.Ctx, "notifications/x", nil), rejoin.ErrSessionEnded)
		require.ErrorIs(t, tool.Notify("notifications/x", nil), rejoin.ErrSessionEnded)
		require.ErrorIs(t, tool.Ask(t.Context(), "roots/list", nil, nil), rejoin.ErrSessionEnded)
		require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrEnded)
		require.ErrorIs(t, tool.CloseStandaloneStream(0), rejoin.ErrEnded)
		require.ErrorIs(t, s.SaveState(nil), rejoin.ErrSessionEnded)
		require.ErrorIs(t, s.SaveStateFunc(func() []byte { return nil }), rejoin.ErrSessionEnded)
		require.Equal(t, "x", string(s.SavedState()), "what is refused replaces nothing")
		require.False(t, tool.Connected())
		require.False(t, tool.Resumable())
		require.Equal(t, -32001, c.Start("ping", nil).Err().Code)
	})
}

// A message that is sent with the context of another session's call goes to the standalone stream.
func TestNotifyInAnotherSessionsContext(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		one, two := rejointest.New(t, app, rejointest.Config{}), rejointest.New(t, app, rejointest.Config{})
		call := one.CallTool("x", nil)
		a := next()
		two.CallTool("x", nil)
		b := next()
		listen := two.Listen()
		require.NoError(t, b.Session().Notify(a.Ctx, "notifications/x", json.RawMessage(`{ "a" : 1.50 }`)))
		require.Equal(t, "open", kit.Last(call), "a context of another session's call says nothing here")
		require.Contains(t, string(listen.Messages()[0]), `"params":{ "a" : 1.50 }`, "as it is")
	})
}

// A state that is a function is called only when it is needed, without a lock, and also after the end.
func TestAStateThatIsAFunction(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{})
		c.CallTool("x", nil)
		s := next().Session()
		asked := 0
		state := func() []byte {
			asked++
			_ = s.Version() // with a held lock this would wait for ever
			return []byte(strconv.Itoa(asked))
		}
		for range 1000 {
			require.NoError(t, s.SaveStateFunc(state))
		}
		require.Zero(t, asked, "nobody has asked for it")
		require.Equal(t, "1", string(s.SavedState()))
		require.NoError(t, s.SaveState([]byte("x")))
		require.Equal(t, "x", string(s.SavedState()), "what was saved last counts")
		require.NoError(t, s.SaveStateFunc(state))
		s.End(nil)
		require.Equal(t, "2", string(s.SavedState()))
	})
}
