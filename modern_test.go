package rejoin_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// bothEras is an app with a handler for the modern era.
type bothEras struct {
	*fake
	modern http.Handler
}

func (a bothEras) Modern() http.Handler { return a.modern }

const modernPing = `{"jsonrpc":"2.0","id":"mine","method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`

// A request of the modern era reaches the app's own handler as it came, behind the server's guard. It has a handle, which knows that
// nobody can poll there.
func TestModernRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var bodies []string
		var closed error
		var server *rejoin.Server
		app := bothEras{&fake{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			closed, server = rejoin.HandleFromContext(r.Context()).CloseStream(0), rejoin.ServerFromContext(r.Context())
			w.WriteHeader(http.StatusTeapot)
		})}
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Eras: rejoin.Both, Logger: quietLogger()}})
		for _, test := range []struct {
			body   string
			header []string
			status int
		}{
			{modernPing, []string{"Mcp-Session-Id", ""}, http.StatusTeapot},
			{ping, []string{"Mcp-Protocol-Version", "2026-07-28"}, http.StatusTeapot},
			{ping, nil, http.StatusOK},
			{modernPing, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
			{modernPing, []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		} {
			_, res := post(t, c, test.body, test.header...)
			require.Equal(t, test.status, res.StatusCode, "%+v", test)
		}
		require.Equal(t, []string{modernPing, ping}, bodies)
		require.ErrorIs(t, closed, rejoin.ErrNotResumable)
		require.Same(t, c.Server(), server)
		require.EqualValues(t, 1, c.Server().Stats().Sessions, "it has no session")
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			body, res := whole(t, c.Do(request(t, method, "", "Mcp-Protocol-Version", "2026-07-28")))
			require.Equal(t, "405 error(-32600,null)", refusal(t, body, res))
			require.Equal(t, "POST", res.Header.Get("Allow"))
		}
	})
}

// There a disconnect cancels; and so does the end of the server, which a drain puts off until the request has ended.
func TestWhatEndsAModernRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		var cause error
		app := bothEras{&fake{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
				cause = context.Cause(r.Context())
			}
		})}
		s := newServer(t, app, rejoin.Config{Eras: rejoin.Both})
		ctx, cancel := context.WithCancel(context.Background())
		w := serve(s, request(t, http.MethodPost, modernPing).WithContext(ctx))
		require.Equal(t, "open", w.story())
		cancel()
		synctest.Wait()
		require.ErrorIs(t, cause, context.Canceled)

		cause = nil
		serve(s, request(t, http.MethodPost, modernPing))
		done := drains(t, s, 0)
		require.Empty(t, done)
		require.Equal(t, `503 error(-32000,"mine") ended`, serve(s, request(t, http.MethodPost, modernPing)).story())
		close(release)
		require.NoError(t, <-done)
		require.NoError(t, cause)
	})
	bubble(t, func(t *testing.T) {
		var cause error
		app := bothEras{&fake{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			cause = context.Cause(r.Context())
		})}
		s := newServer(t, app, rejoin.Config{Eras: rejoin.Both})
		serve(s, request(t, http.MethodPost, modernPing))
		require.Equal(t, &rejoin.DrainError{Running: 1}, <-drains(t, s, time.Second))
		synctest.Wait()
		require.ErrorIs(t, cause, rejoin.ErrShutdown)
	})
}
