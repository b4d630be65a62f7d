package rejoin_test

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

// Clients of both eras keep sending the session's id and the cursor. A modern handler sees neither, so it cannot refuse them. The rest of the
// request is as it came, and nothing that the handler does to it is seen outside.
func TestWhatAModernHandlerSeesOfItsRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen *http.Request
		var body []string
		s := modernServer(t, rejoin.Config{}, func(_ http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			seen, body = r, []string{string(b)}
			r.Header.Set("X-Mine", "1")
			r.Header.Set("Accept", "text/html")
		})
		id, _ := opens(t, s)
		for _, stale := range []struct{ session, cursor []string }{
			{[]string{id}, []string{"AAAAAAAAAAAAAAAAAAAAAA.0"}},
			{[]string{"one", "another"}, []string{"1", "2"}},
			{nil, []string{""}},
		} {
			r := request(t, http.MethodPost, modernPing, "Mcp-Name", "x")
			r.Header["Mcp-Session-Id"], r.Header["Last-Event-Id"] = stale.session, stale.cursor
			r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
			type key struct{}
			r = r.WithContext(context.WithValue(r.Context(), key{}, "value"))
			r.SetPathValue("tenant", "acme")
			before := r.Header.Clone()
			require.Equal(t, "200 ended", serve(s, r).story())
			require.Equal(t, []string{modernPing}, body)
			require.NotContains(t, seen.Header, "Mcp-Session-Id")
			require.NotContains(t, seen.Header, "Last-Event-Id")
			require.Equal(t, "x", seen.Header.Get("Mcp-Name"))
			require.EqualValues(t, len(modernPing), seen.ContentLength)
			require.Empty(t, seen.TransferEncoding)
			require.Equal(t, "value", seen.Context().Value(key{}))
			require.Equal(t, "acme", seen.PathValue("tenant"))
			require.Equal(t, before, r.Header)
			require.EqualValues(t, -1, r.ContentLength)
		}
		require.Len(t, sessions(s), 1, "nor is the session touched")
	})
}

// There the handle can do nothing: the request is the SDK's own to answer, and has no session. CloseStream says that nobody can poll, and the
// log says why, once.
func TestTheHandleOfAModernRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		said := &lines{}
		s := modernServer(t, rejoin.Config{Logger: slog.New(slog.NewTextHandler(said, nil))}, func(_ http.ResponseWriter, r *http.Request) {
			h := rejoin.HandleFromContext(r.Context())
			assert.ErrorIs(t, h.CloseStream(0), rejoin.ErrNotResumable)
			assert.ErrorIs(t, h.CloseStandaloneStream(time.Second), rejoin.ErrNotResumable)
			assert.ErrorIs(t, h.Progress(1, 2, "x"), rejoin.ErrNoCall)
			assert.ErrorIs(t, h.Notify("notifications/x", nil), rejoin.ErrNoCall)
			assert.ErrorIs(t, h.Request(r.Context(), "roots/list", nil, nil), rejoin.ErrNoCall)
			assert.ErrorIs(t, h.SetPolicy(rejoin.Policy{}), rejoin.ErrNoCall)
			assert.ErrorIs(t, h.WaitConnected(r.Context()), rejoin.ErrNoCall)
			assert.False(t, h.Resumable())
			assert.False(t, h.Connected())
			assert.Empty(t, h.Stream())
			assert.Nil(t, h.Session())
		})
		for range 3 {
			require.Equal(t, "200 ended", serve(s, request(t, http.MethodPost, modernPing)).story())
		}
		require.Len(t, said.all, 1)
		require.Contains(t, said.all[0], "no resumption")
		require.Contains(t, said.all[0], "Config.Eras")
		require.ErrorIs(t, rejoin.HandleFromContext(context.Background()).CloseStream(0), rejoin.ErrNoCall)
	})
}

// Before the modern handler stand the guard and the limits, for its requests as for all.
func TestTheDoorBeforeTheModernHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := modernServer(t, rejoin.Config{MaxBodyBytes: 2000}, func(http.ResponseWriter, *http.Request) { t.Error("it was let in") })
		padded := func(n int) string { return modernPing + strings.Repeat(" ", n) }
		for _, test := range []struct {
			want   string
			body   string
			host   string
			header []string
		}{
			{`403 error(-32600,null) ended`, modernPing, "evil.example", nil},
			{`403 error(-32600,null) ended`, modernPing, "localhost", []string{"Origin", "https://evil.example"}},
			{`415 error(-32600,"mine") ended`, modernPing, "localhost", []string{"Content-Type", "text/plain"}},
			{`415 error(-32600,"mine") ended`, modernPing, "localhost", []string{"Content-Type", ""}},
			{`413 error(-32600,"mine") ended`, padded(2000), "localhost", nil},
			{`400 error(-32600,"mine") ended`, strings.Replace(modernPing, `"method"`, `"method":"x","method"`, 1), "localhost", nil},
			{`400 error(-32600,"mine") ended`, strings.Replace(modernPing, `"method"`, `"Method"`, 1), "localhost", modernHeader},
			{`400 error(-32700,"mine") ended`, modernPing + "}", "localhost", nil},
		} {
			r := toLoopback(request(t, http.MethodPost, test.body, test.header...))
			r.Host = test.host
			require.Equal(t, test.want, serve(s, r).story(), "%+v", test)
		}
	})
}

// Config.MaxConcurrent is a session's, and these requests have none.
func TestModernRequestsAreNotCountedTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := modernServer(t, rejoin.Config{MaxConcurrent: 1, MaxSessions: 1}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		for range 100 {
			require.Equal(t, "open", serve(s, request(t, http.MethodPost, modernPing)).story(), "also with the same id")
		}
		require.Equal(t, rejoin.Stats{Connections: 100}, s.Stats())
	})
}

// A client of both eras that sends a legacy initialize for the modern version, without its header and its _meta, is on the legacy way: it is
// offered the newest version that has one, and can go on.
func TestALegacyInitializeForTheModernVersion(t *testing.T) {
	for _, eras := range []rejoin.Eras{rejoin.Legacy, rejoin.Both} {
		bubble(t, func(t *testing.T) {
			legacy := tool(func(context.Context, *rejoin.Handle) (any, error) { return "done", nil })
			app := legacyAndModern{legacy, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is not modern") })}
			s := newServer(t, app, rejoin.Config{Eras: eras})
			w := serve(s, request(t, http.MethodPost, strings.Replace(initialize, "2025-11-25", "2026-07-28", 1)))
			require.Equal(t, "200 result ended", w.story())
			require.Contains(t, w.body.String(), `"protocolVersion":"2025-11-25"`)
			id := w.header.Get("Mcp-Session-Id")
			require.Equal(t, http.StatusAccepted, says(t, s, id, "notifications/initialized"))
			w = serve(s, inSession(t, id, `{"jsonrpc":"2.0","id":1,"method":"x"}`, "Mcp-Protocol-Version", "2025-11-25"))
			require.Equal(t, "200 result ended", w.story())
			require.Equal(t, "2025-11-25", sessions(s)[0].Version)
		})
	}
}

type legacyAndModern struct {
	rejoin.App
	modern http.Handler
}

func (a legacyAndModern) Modern() http.Handler { return a.modern }
