package chiadapter_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/adapters/adaptertest"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

type valueKey string

// auth sets the user as middleware for chi does.
func auth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), valueKey("user"), r.Header.Get(adaptertest.UserHeader))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func subject(register func(chi.Router, string, *rejoin.Server)) adaptertest.Subject {
	return adaptertest.Subject{
		Mount: func(_ testing.TB, s *rejoin.Server, path string, mw ...func(http.Handler) http.Handler) http.Handler {
			r := chi.NewRouter()
			r.Use(middleware.Recoverer, auth)
			register(r, path, s)
			return chi.Chain(mw...).Handler(r)
		},
		Lend: func(_ testing.TB, s *rejoin.Server, path, route string, h http.HandlerFunc) http.Handler {
			r := chi.NewRouter()
			r.Use(middleware.Recoverer, chiadapter.Middleware(path, s))
			r.Get(route, h)
			return r
		},
		Param: chi.URLParamFromCtx,
		Value: func(ctx context.Context, name string) string {
			v, _ := ctx.Value(valueKey(name)).(string)
			return v
		},
	}
}

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, subject(chiadapter.Register))
}

// The exam sees what goes wrong where chi's own context goes on to the tool.
func TestTheExamSeesForeignValues(t *testing.T) {
	naive := subject(func(r chi.Router, path string, s *rejoin.Server) { r.HandleFunc(path, s.Serve) })
	faults := adaptertest.Faults(t, naive, adaptertest.Own)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "of 200 users did not get their own")
}

// app is one whose tools let their clients go, wait a minute and answer with tell.
func app(tell func(context.Context) any) rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "test"}, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		if err := rejoin.HandleFromContext(ctx).CloseStream(0); err != nil {
			return nil, err
		}
		<-time.After(time.Minute)
		return tell(ctx), nil
	})
}

func done(context.Context) any { return "done" }

func newServer(t *testing.T) *rejoin.Server {
	t.Helper()
	s, err := rejoin.NewServer(app(done), rejoin.Config{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func send(h http.Handler, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(initialize))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// serves checks that the endpoint is at a path, in both spellings, and answers all verbs itself.
func serves(t *testing.T, h http.Handler, path string) {
	t.Helper()
	for _, spelling := range []string{path, path + "/"} {
		require.Equal(t, http.StatusOK, send(h, http.MethodPost, spelling).Code, "POST %s", spelling)
		require.Equal(t, http.StatusBadRequest, send(h, http.MethodGet, spelling).Code, "GET %s without a session", spelling)
		require.Equal(t, "GET, POST, DELETE", send(h, http.MethodPut, spelling).Header().Get("Allow"), "PUT %s", spelling)
	}
}

// everything is a session with each kind of answer. want is what a log of methods and statuses has of it.
func everything(t *testing.T, c *rejointest.Client) (want []string) {
	t.Helper()
	call := c.CallTool("x", nil)
	call.WaitClosed()
	require.Equal(t, `"done"`, string(call.Result()))
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodPut, "http://rejoin.test/mcp", http.NoBody),
		httptest.NewRequest(http.MethodGet, "http://rejoin.test/nowhere", http.NoBody),
	} {
		require.NoError(t, c.Do(r).Body.Close())
	}
	c.Delete()
	require.NoError(t, c.Do(httptest.NewRequest(http.MethodGet, "http://rejoin.test/mcp", http.NoBody)).Body.Close())
	synctest.Wait()
	return []string{"POST 200", "POST 202", "POST 200", "GET 200", "PUT 405", "GET 404", "DELETE 204", "GET 404"}
}

// Wherever chi can mount a handler.
func TestMounts(t *testing.T) {
	s := newServer(t)
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.Mount("/mounted", chiadapter.New(s))
	r.Route("/route/{tenant}", func(r chi.Router) {
		r.Mount("/mcp", chiadapter.New(s))
		r.Group(func(r chi.Router) {
			r.Use(auth)
			chiadapter.Register(r, "/group/", s)
		})
	})
	chiadapter.Register(r.With(auth), "/with", s)
	r.Mount("/stripped", http.StripPrefix("/stripped", chiadapter.New(s)))
	sub := chi.NewRouter()
	chiadapter.Register(sub, "/", s)
	r.Mount("/sub", sub)
	lent := chi.NewRouter()
	lent.Use(chiadapter.Middleware("/lent/", s))
	lent.Get("/", http.NotFound)
	lent.NotFound(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for path, h := range map[string]http.Handler{
		"/mounted": r, "/route/acme/mcp": r, "/route/acme/group": r, "/with": r, "/stripped": r, "/sub": r, "/lent": lent,
	} {
		serves(t, h, path)
	}
	require.Equal(t, http.StatusNotFound, send(r, http.MethodPost, "/with/more").Code, "what is below is not the endpoint's")
	require.Equal(t, http.StatusTeapot, send(lent, http.MethodPost, "/lent/more").Code, "what is below is not the endpoint's")
}

// Parameters of all levels of nested routers are the tool's when its request is over.
func TestNestedParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := func(ctx context.Context) any {
			return []string{chi.URLParamFromCtx(ctx, "tenant"), chi.URLParamFromCtx(ctx, "project"), chi.RouteContext(ctx).RoutePattern()}
		}
		c := rejointest.New(t, app(tell), rejointest.Config{Path: "/acme/p/1/mcp", Handler: func(s *rejoin.Server) http.Handler {
			inner := chi.NewRouter()
			chiadapter.Register(inner, "/{project}/mcp", s)
			r := chi.NewRouter()
			r.Route("/{tenant}", func(r chi.Router) { r.Mount("/p", inner) })
			return r
		}})
		call := c.CallTool("x", nil)
		call.WaitClosed()
		for i := range 20 {
			other := httptest.NewRequest(http.MethodPost, fmt.Sprintf("http://rejoin.test/other/p/%d/mcp", i), strings.NewReader("{}"))
			require.NoError(t, c.Do(other).Body.Close())
		}
		require.JSONEq(t, `["acme", "1", "/{tenant}/p/{project}/mcp"]`, string(call.Result()))
	})
}

// entries is a log of one line per request.
type entries struct {
	mu    sync.Mutex
	lines []string
}

type entry struct {
	log    *entries
	method string
}

func (l *entries) NewLogEntry(r *http.Request) middleware.LogEntry { return &entry{l, r.Method} }

func (e *entry) Write(status, _ int, _ http.Header, _ time.Duration, _ any) {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	e.log.lines = append(e.log.lines, fmt.Sprint(e.method, " ", status))
}

func (e *entry) Panic(any, []byte) { e.Write(0, 0, nil, 0, nil) }

// chi's logger writes one line per request, with the status that the client got.
func TestLogger(t *testing.T) {
	for _, register := range []func(chi.Router, *rejoin.Server){
		func(r chi.Router, s *rejoin.Server) { chiadapter.Register(r, "/mcp", s) },
		func(r chi.Router, s *rejoin.Server) { r.Use(chiadapter.Middleware("/mcp", s)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var log entries
			want := everything(t, rejointest.New(t, app(done), rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
				r := chi.NewRouter()
				r.Use(middleware.RequestLogger(&log), middleware.Recoverer)
				register(r, s)
				r.Get("/", http.NotFound)
				return r
			}}))
			require.Equal(t, want, log.lines)
		})
	}
}
