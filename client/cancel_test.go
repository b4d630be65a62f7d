package client_test

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
)

func TestTheEndOfAContextCancelsTheCallOnTheServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ended := make(chan error, 1)
		_, hc := tool(t, rejoin.Config{}, func(ctx context.Context, h *rejoin.Handle) (any, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		s := connect(t, hc, client.Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		call, err := s.Start(ctx, "tools/call", nil)
		require.NoError(t, err)
		<-time.After(time.Minute)
		mine := errors.New("mine")
		cancel(mine)
		require.ErrorIs(t, call.Wait(t.Context(), nil), mine)
		require.ErrorIs(t, <-ended, rejoin.ErrCancelled)
	})
}

func TestACancellationNamesItsRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := forever()
		_, s, one := play(t, server, client.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		two, err := s.Start(ctx, "tools/call", nil)
		require.NoError(t, err)
		synctest.Wait()
		one.Cancel("enough \"of\"\nit")
		require.ErrorIs(t, one.Wait(t.Context(), nil), client.ErrCancelled)
		require.ErrorIs(t, two.Wait(t.Context(), nil), context.DeadlineExceeded)
		sent := server.hits("POST", "notifications/cancelled")
		require.Len(t, sent, 2)
		require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"enough \"of\"\nit"}}`, sent[0].body)
		require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"context deadline exceeded"}}`, sent[1].body)
		require.Equal(t, "sid", sent[0].session)
		one.Cancel("again")
		require.Len(t, server.hits("POST", "notifications/cancelled"), 2)
	})
}

func TestACancellationWaitsForNoServer(t *testing.T) {
	for name, refuse := range map[string]bool{"silent": false, "gone": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := forever()
				silent := true
				server.other = func(w http.ResponseWriter, r *http.Request, h hit) {
					if h.method == "notifications/cancelled" && silent {
						<-r.Context().Done()
					}
				}
				w, hc := serveOn(t, server)
				s := connect(t, hc, client.Config{})
				ctx, cancel := context.WithCancel(t.Context())
				call, err := s.Start(ctx, "tools/call", nil)
				require.NoError(t, err)
				synctest.Wait()
				if refuse {
					w.setDown(syscall.ECONNREFUSED)
				}
				begun := time.Now()
				cancel()
				require.ErrorIs(t, call.Wait(ctx, nil), context.Canceled)
				require.Zero(t, time.Since(begun), "whoever waits with the same context waits for nothing")
				<-call.Done()
				require.LessOrEqual(t, time.Since(begun), 2*time.Second)
				require.ErrorIs(t, call.Wait(t.Context(), nil), context.Canceled)
				w.setDown(nil)
			})
		})
	}
}

func TestACallThatIsBetweenPollsCanBeCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, "id: a\nretry: 600000\ndata: \n\n")
		}}
		_, _, call := play(t, server, client.Config{})
		<-time.After(time.Minute)
		begun := time.Now()
		call.Cancel("now")
		require.Zero(t, time.Since(begun))
		require.Len(t, server.hits("POST", "notifications/cancelled"), 1)
		require.Empty(t, server.hits("GET", ""))
	})
}

func TestWhatNeverLeftIsNotCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := forever()
		s := connect(t, serve(t, server), client.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Do(ctx, "tools/call", nil, nil), context.Canceled)
		synctest.Wait()
		require.Empty(t, server.hits("POST", "tools/call"))
		require.Empty(t, server.hits("POST", "notifications/cancelled"))
	})
}

func TestACallThatHasItsResponseIsNotCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, event("a", result(h, "{}")))
			<-r.Context().Done()
		}}
		s := connect(t, serve(t, server), client.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		call, err := s.Start(ctx, "tools/call", nil)
		require.NoError(t, err)
		<-call.Done()
		cancel()
		require.NoError(t, call.Wait(ctx, nil), "a response that has come counts more than a context that has ended")
		call.Cancel("late")
		<-time.After(time.Minute)
		require.Empty(t, server.hits("POST", "notifications/cancelled"))
	})
}
