package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
)

func TestDoDecodesTheResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			if n == 3 {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + h.id + `,"error":{"code":-5,"message":"no","data":[1]}}`))
				return
			}
			answer(w, h, `{"n":1}`)
		}}
		s := connect(t, serve(t, server), client.Config{})
		var got struct{ N int }
		require.NoError(t, s.Do(t.Context(), "m", map[string]int{"a": 1}, &got))
		require.Equal(t, 1, got.N)
		require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"method":"m","params":{"a":1}}`, server.hits("POST", "m")[0].body)
		var whole json.RawMessage
		require.NoError(t, s.Do(t.Context(), "m", nil, &whole))
		require.Equal(t, `{"n":1}`, string(whole))
		require.JSONEq(t, `{"jsonrpc":"2.0","id":3,"method":"m"}`, server.hits("POST", "m")[1].body, "no params are none")
		var e *client.Error
		require.ErrorAs(t, s.Do(t.Context(), "m", nil, nil), &e)
		require.Equal(t, &client.Error{Code: -5, Message: "no", Data: json.RawMessage("[1]")}, e)
		var wrong []string
		require.ErrorContains(t, s.Do(t.Context(), "m", nil, &wrong), "client: the result: ")
		_, err := s.Start(t.Context(), "m", make(chan int))
		require.ErrorContains(t, err, "client: params: ")
	})
}

// The error of a call is what a handler of a server may return.
func TestAGatewayReturnsTheErrorOfItsCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		want := &rejoin.Error{Code: -5, Message: "no", Data: json.RawMessage(`{"a":1}`)}
		_, upstream := tool(t, rejoin.Config{}, func(context.Context, *rejoin.Handle) (any, error) { return nil, want })
		behind := connect(t, upstream, client.Config{})
		_, gateway := tool(t, rejoin.Config{}, func(ctx context.Context, _ *rejoin.Handle) (any, error) {
			return nil, behind.Do(ctx, "tools/call", nil, nil)
		})
		var got *client.Error
		require.ErrorAs(t, connect(t, gateway, client.Config{}).Do(t.Context(), "tools/call", nil, nil), &got)
		require.Equal(t, want, got)
	})
}

func TestNotifySaysWhetherTheServerTookIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		status := http.StatusAccepted
		server := &script{other: func(w http.ResponseWriter, r *http.Request, h hit) { w.WriteHeader(status) }}
		s := connect(t, serve(t, server), client.Config{})
		require.NoError(t, s.Notify(t.Context(), "notifications/x", map[string]int{"a": 1}))
		sent := server.hits("POST", "notifications/x")
		require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}`, sent[0].body)
		require.Equal(t, "sid", sent[0].session)
		raw := json.RawMessage(`{ "a": "<1>" }`)
		for _, params := range []any{raw, &raw, []byte(raw)} {
			require.NoError(t, s.Notify(t.Context(), "notifications/raw", params))
		}
		require.Len(t, server.hits("POST", "notifications/raw"), 3)
		for _, h := range server.hits("POST", "notifications/raw") {
			require.Contains(t, h.body, `"params":{ "a": "<1>" }}`, "JSON is sent as it is, byte by byte")
		}
		for _, params := range []any{nil, (*json.RawMessage)(nil), map[string]int(nil)} {
			require.NoError(t, s.Notify(t.Context(), "notifications/none", params))
		}
		require.Len(t, server.hits("POST", "notifications/none"), 3)
		for _, h := range server.hits("POST", "notifications/none") {
			require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/none"}`, h.body)
		}
		require.ErrorContains(t, s.Notify(t.Context(), "notifications/x", json.RawMessage(`{`)), "client: params: ")
		require.Len(t, server.hits("POST", "notifications/x"), 1, "what is not JSON is not sent")
		status = http.StatusBadRequest
		var e *client.StatusError
		require.ErrorAs(t, s.Notify(t.Context(), "notifications/x", nil), &e)
		require.Equal(t, 400, e.Status)
		status = http.StatusNotFound
		require.ErrorIs(t, s.Notify(t.Context(), "notifications/x", nil), client.ErrSessionGone)
		require.NoError(t, s.Close(t.Context()), "a DELETE that is answered 404 has done its work")
		require.ErrorIs(t, s.Notify(t.Context(), "notifications/x", nil), client.ErrClosed)
	})
}

// forever is a server whose calls, once primed, never end.
func forever() *script {
	return &script{
		post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, primer("a"))
			<-r.Context().Done()
		},
		get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, primer("s"))
			<-r.Context().Done()
		},
	}
}

func TestCloseEndsEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := forever()
		_, hc := serveOn(t, server)
		before := len(goroutines())
		s, err := client.Connect(t.Context(), address, client.Config{HTTP: hc, OnNotification: func(string, json.RawMessage) {}})
		require.NoError(t, err)
		call := start(t, s)
		_, _ = s.Start(t.Context(), "tools/call", nil)
		synctest.Wait()
		require.NoError(t, s.Close(t.Context()))
		require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrClosed)
		require.Empty(t, take(call), "a loop over the messages of a call that has ended ends")
		require.Len(t, server.hits("DELETE", ""), 1)
		require.Equal(t, "sid", server.hits("DELETE", "")[0].session)
		require.Empty(t, server.hits("POST", "notifications/cancelled"), "the session's end says it all")
		hc.CloseIdleConnections()
		require.Len(t, goroutines(), before)
		_, err = s.Start(t.Context(), "tools/call", nil)
		require.ErrorIs(t, err, client.ErrClosed)
		for _, err = range s.Listen(t.Context()) {
		}
		require.ErrorIs(t, err, client.ErrListening)
		require.NoError(t, s.Close(t.Context()), "twice is fine")
	})
}

func TestCloseTakesWhateverEndsTheSession(t *testing.T) {
	for status, wrong := range map[int]bool{200: false, 202: false, 204: false, 404: false, 405: false, 403: true, 500: true} {
		bubble(t, func(t *testing.T) {
			server := &script{other: func(w http.ResponseWriter, r *http.Request, h hit) {
				if r.Method == http.MethodDelete {
					w.WriteHeader(status)
				}
			}}
			s, err := client.Connect(t.Context(), address, client.Config{HTTP: serve(t, server)})
			require.NoError(t, err)
			err = s.Close(t.Context())
			var e *client.StatusError
			require.Equal(t, wrong, err != nil)
			if wrong {
				require.ErrorAs(t, err, &e)
				require.Equal(t, status, e.Status)
			}
		})
	}
}

func TestCloseWaitsNoLongerThanItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, event("a", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`))
			<-r.Context().Done()
		}}
		s := connect(t, serve(t, server), client.Config{OnRequest: func(context.Context, string, json.RawMessage) (any, error) {
			<-release // deaf to its context
			return nil, nil
		}})
		start(t, s)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Close(ctx), context.DeadlineExceeded)
		require.Len(t, server.hits("DELETE", ""), 1, "the server was told all the same")
		close(release)
		require.NoError(t, s.Close(t.Context()))
		require.Empty(t, server.hits("POST", "")[3:], "nobody waits for the answer any more")
	})
}

func TestLeaveLeavesTheSessionAlive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := forever()
		s := connect(t, serve(t, server), client.Config{})
		call, other := start(t, s), start(t, s)
		synctest.Wait()
		require.NotEmpty(t, call.Leave())
		require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrLeft)
		require.NotPanics(t, func() {
			select {
			case <-other.Done():
				panic("the other call goes on")
			default:
			}
		})
		s.Leave()
		require.ErrorIs(t, other.Wait(t.Context(), nil), client.ErrLeft)
		require.NotEmpty(t, other.Token())
		require.NoError(t, s.Close(t.Context()), "a deferred Close must not end what was left")
		require.Empty(t, server.hits("DELETE", ""))
		require.Empty(t, server.hits("POST", "notifications/cancelled"))
		_, err := s.Start(t.Context(), "tools/call", nil)
		require.ErrorIs(t, err, client.ErrLeft)
	})
}

// Starting while closing must neither race nor leave anything behind.
func TestStartAndCloseAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := connect(t, serve(t, forever()), client.Config{})
		var g sync.WaitGroup
		for range 20 {
			g.Go(func() {
				if call, err := s.Start(t.Context(), "tools/call", nil); err == nil {
					<-call.Done()
				}
			})
		}
		require.NoError(t, s.Close(t.Context()))
		g.Wait()
	})
}
