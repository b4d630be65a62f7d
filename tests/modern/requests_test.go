package modern_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A request of the modern era reaches the app's own handler unchanged, after the server's guard. It has a handle, on which nothing is resumable.
func TestModernRequests(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var bodies []string
		var closed error
		var server *rejoin.Server
		app := kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			closed, server = rejoin.HandleFromContext(r.Context()).CloseStream(0), rejoin.ServerFromContext(r.Context())
			w.WriteHeader(http.StatusTeapot)
		})}
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth, Logger: kit.QuietLogger()}})
		for _, test := range []struct {
			body   string
			header []string
			status int
		}{
			{kit.ModernPing, []string{"Mcp-Session-Id", ""}, http.StatusTeapot},
			{kit.Ping, []string{"Mcp-Protocol-Version", "2026-07-28"}, http.StatusTeapot},
			{kit.Ping, nil, http.StatusOK},
			{kit.ModernPing, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
			{kit.ModernPing, []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		} {
			_, res := kit.Post(t, c, test.body, test.header...)
			require.Equal(t, test.status, res.StatusCode, "%+v", test)
		}
		require.Equal(t, []string{kit.ModernPing, kit.Ping}, bodies)
		require.ErrorIs(t, closed, rejoin.ErrNotResumable)
		require.Same(t, c.Server(), server)
		require.EqualValues(t, 1, c.Server().Stats().Sessions, "it has no session")
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			body, res := kit.ReadAll(t, c.Do(kit.Request(t, method, "", "Mcp-Protocol-Version", "2026-07-28")))
			require.Equal(t, "405 error(-32600,null)", kit.Refusal(t, body, res))
			require.Equal(t, "POST", res.Header.Get("Allow"))
		}
	})
}

// A disconnect cancels a modern request. So does the end of the server, for which a drain waits until the request has ended.
func TestWhatEndsAModernRequest(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		var cause error
		app := kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
				cause = context.Cause(r.Context())
			}
		})}
		s := kit.NewServer(t, app, rejoin.Config{Eras: rejoin.EraBoth})
		ctx, cancel := context.WithCancel(context.Background())
		w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing).WithContext(ctx))
		require.Equal(t, "open", w.Summary())
		cancel()
		synctest.Wait()
		require.ErrorIs(t, cause, context.Canceled)

		cause = nil
		kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing))
		done := kit.Drain(t, s, 0)
		require.Empty(t, done)
		require.Equal(t, `503 error(-32000,"mine") ended`, kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing)).Summary())
		close(release)
		require.NoError(t, <-done)
		require.NoError(t, cause)
	})
	kit.Bubble(t, func(t *testing.T) {
		var cause error
		app := kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			cause = context.Cause(r.Context())
		})}
		s := kit.NewServer(t, app, rejoin.Config{Eras: rejoin.EraBoth})
		kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing))
		require.Equal(t, &rejoin.DrainError{Running: 1}, <-kit.Drain(t, s, time.Second))
		synctest.Wait()
		require.ErrorIs(t, cause, rejoin.ErrShutdown)
	})
}

// Clients of both eras still send the session's id and the cursor. A modern handler gets neither, so it cannot refuse them. The rest of the request is
// unchanged, and changes that the handler makes to it are not visible outside.
func TestWhatAModernHandlerSeesOfItsRequest(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var seen *http.Request
		var body []string
		s := modernServer(t, rejoin.Config{}, func(_ http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			seen, body = r, []string{string(b)}
			r.Header.Set("X-Mine", "1")
			r.Header.Set("Accept", "text/html")
		})
		id, _ := kit.Open(t, s)
		for _, stale := range []struct{ session, cursor []string }{
			{[]string{id}, []string{"AAAAAAAAAAAAAAAAAAAAAA.0"}},
			{[]string{"one", "another"}, []string{"1", "2"}},
			{nil, []string{""}},
		} {
			r := kit.Request(t, http.MethodPost, kit.ModernPing, "Mcp-Name", "x")
			r.Header["Mcp-Session-Id"], r.Header["Last-Event-Id"] = stale.session, stale.cursor
			r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
			type key struct{}
			r = r.WithContext(context.WithValue(r.Context(), key{}, "value"))
			r.SetPathValue("tenant", "acme")
			before := r.Header.Clone()
			require.Equal(t, "200 ended", kit.Serve(s, r).Summary())
			require.Equal(t, []string{kit.ModernPing}, body)
			require.NotContains(t, seen.Header, "Mcp-Session-Id")
			require.NotContains(t, seen.Header, "Last-Event-Id")
			require.Equal(t, "x", seen.Header.Get("Mcp-Name"))
			require.EqualValues(t, len(kit.ModernPing), seen.ContentLength)
			require.Empty(t, seen.TransferEncoding)
			require.Equal(t, "value", seen.Context().Value(key{}))
			require.Equal(t, "acme", seen.PathValue("tenant"))
			require.Equal(t, before, r.Header)
			require.EqualValues(t, -1, r.ContentLength)
		}
		require.Len(t, kit.Sessions(s), 1, "nor is the session touched")
	})
}

// The handle of a modern request that an SDK answers serves the response of the request. There is no session. Where the client takes no tasks,
// CloseStream returns ErrNotResumable, and the log says why, once.
func TestTheHandleOfAModernRequest(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		said := &kit.Log{}
		s := modernServer(t, rejoin.Config{Logger: slog.New(slog.NewTextHandler(said, nil))}, func(_ http.ResponseWriter, r *http.Request) {
			h := rejoin.HandleFromContext(r.Context())
			assert.ErrorIs(t, h.CloseStream(0), rejoin.ErrNotResumable)
			assert.ErrorIs(t, h.CloseStandaloneStream(time.Second), rejoin.ErrNotResumable)
			assert.NoError(t, h.Progress(1, 2, "the client has sent no token"))
			assert.NoError(t, h.Notify("notifications/x", nil))
			assert.ErrorIs(t, h.Ask(r.Context(), "roots/list", nil, nil), rejoin.ErrNotResumable)
			assert.ErrorIs(t, h.SetPolicy(rejoin.Policy{}), rejoin.ErrNotResumable)
			assert.NoError(t, h.WaitConnected(r.Context()))
			assert.False(t, h.Resumable())
			assert.True(t, h.Connected())
			assert.Empty(t, h.Stream())
			assert.Nil(t, h.Session())
		})
		for range 3 {
			require.Equal(t, "200 sse -:x ended", kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing)).Summary())
		}
		require.Len(t, said.All, 1)
		require.Contains(t, said.All[0], "has not declared io.modelcontextprotocol/tasks")
		require.ErrorIs(t, rejoin.HandleFromContext(context.Background()).CloseStream(0), rejoin.ErrNoCall)
	})
}

// The guard and the limits apply to modern requests too.
func TestTheDoorBeforeTheModernHandler(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := modernServer(t, rejoin.Config{MaxBodyBytes: 2000}, func(http.ResponseWriter, *http.Request) { t.Error("it was let in") })
		padded := func(n int) string { return kit.ModernPing + strings.Repeat(" ", n) }
		for _, test := range []struct {
			want   string
			body   string
			host   string
			header []string
		}{
			{`403 error(-32600,null) ended`, kit.ModernPing, "evil.example", nil},
			{`403 error(-32600,null) ended`, kit.ModernPing, "localhost", []string{"Origin", "https://evil.example"}},
			{`415 error(-32600,"mine") ended`, kit.ModernPing, "localhost", []string{"Content-Type", "text/plain"}},
			{`415 error(-32600,"mine") ended`, kit.ModernPing, "localhost", []string{"Content-Type", ""}},
			{`413 error(-32600,"mine") ended`, padded(2000), "localhost", nil},
			{`400 error(-32600,"mine") ended`, strings.Replace(kit.ModernPing, `"method"`, `"method":"x","method"`, 1), "localhost", nil},
			{`400 error(-32600,"mine") ended`, strings.Replace(kit.ModernPing, `"method"`, `"Method"`, 1), "localhost", kit.ModernHeader},
			{`400 error(-32700,"mine") ended`, kit.ModernPing + "}", "localhost", nil},
		} {
			r := kit.ToLoopback(kit.Request(t, http.MethodPost, test.body, test.header...))
			r.Host = test.host
			require.Equal(t, test.want, kit.Serve(s, r).Summary(), "%+v", test)
		}
	})
}

// Config.MaxConcurrent is for a session, and modern requests have none.
func TestModernRequestsAreNotCountedTogether(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := modernServer(t, rejoin.Config{MaxConcurrent: 1, MaxSessions: 1}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		for range 100 {
			require.Equal(t, "open", kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernPing)).Summary(), "also with the same id")
		}
		require.Equal(t, rejoin.Stats{Connections: 100}, s.Stats())
	})
}

// A client of both eras that sends a legacy initialize for the modern version, without its header and its _meta, uses the legacy era. It is offered the
// newest version that has initialize, and can go on.
func TestALegacyInitializeForTheModernVersion(t *testing.T) {
	for _, eras := range []rejoin.Eras{rejoin.EraLegacy, rejoin.EraBoth} {
		kit.Bubble(t, func(t *testing.T) {
			legacy := kit.Tool(func(context.Context, *rejoin.Handle) (any, error) { return "done", nil })
			app := legacyAndModern{legacy, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is not modern") })}
			s := kit.NewServer(t, app, rejoin.Config{Eras: eras})
			w := kit.Serve(s, kit.Request(t, http.MethodPost, strings.Replace(kit.Initialize, "2025-11-25", "2026-07-28", 1)))
			require.Equal(t, "200 result ended", w.Summary())
			require.Contains(t, w.Body.String(), `"protocolVersion":"2025-11-25"`)
			id := w.Head.Get("Mcp-Session-Id")
			require.Equal(t, http.StatusAccepted, kit.Notify(t, s, id, "notifications/initialized"))
			w = kit.Serve(s, kit.InSession(t, id, `{"jsonrpc":"2.0","id":1,"method":"x"}`, "Mcp-Protocol-Version", "2025-11-25"))
			require.Equal(t, "200 result ended", w.Summary())
			require.Equal(t, "2025-11-25", kit.Sessions(s)[0].Version)
		})
	}
}

type legacyAndModern struct {
	rejoin.App
	modern http.Handler
}

func (a legacyAndModern) Modern() http.Handler { return a.modern }
