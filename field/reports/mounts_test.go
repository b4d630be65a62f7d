package reports

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// page is what a site serves at all other paths.
func page(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }

// mounts are ways to serve /api/v1/mcp, each beside a page that is served at all other paths.
var mounts = map[string]func(*rejoin.Server) http.Handler{
	"net/http: Register": func(s *rejoin.Server) http.Handler {
		mux := http.NewServeMux()
		stdadapter.Register(mux, "/api/v1/mcp", s)
		mux.HandleFunc("/", page)
		return mux
	},
	"net/http: Register, the other spelling": func(s *rejoin.Server) http.Handler {
		mux := http.NewServeMux()
		stdadapter.Register(mux, "/api/{version}/mcp/", s)
		mux.HandleFunc("/", page)
		return mux
	},
	"net/http: StripPrefix": func(s *rejoin.Server) http.Handler {
		inner := http.NewServeMux()
		stdadapter.Register(inner, "/mcp", s)
		mux := http.NewServeMux()
		mux.Handle("/api/v1/", http.StripPrefix("/api/v1", inner))
		mux.HandleFunc("/", page)
		return mux
	},
	"net/http: StripPrefix to nothing": func(s *rejoin.Server) http.Handler {
		mux := http.NewServeMux()
		h := http.StripPrefix("/api/v1/mcp", stdadapter.New(s))
		mux.Handle("/api/v1/mcp", h)
		mux.Handle("/api/v1/mcp/", h)
		mux.HandleFunc("/", page)
		return mux
	},
	"net/http: Middleware": func(s *rejoin.Server) http.Handler {
		return stdadapter.Middleware("/api/v1/mcp", s)(http.HandlerFunc(page))
	},
	"chi: Mount": func(s *rejoin.Server) http.Handler {
		r := chi.NewRouter()
		r.Mount("/api/v1/mcp", chiadapter.New(s))
		r.HandleFunc("/*", page)
		return r
	},
	"chi: Route": func(s *rejoin.Server) http.Handler {
		r := chi.NewRouter()
		r.Route("/api", func(r chi.Router) {
			r.Route("/{version}", func(r chi.Router) { chiadapter.Register(r, "/mcp", s) })
		})
		r.HandleFunc("/*", page)
		return r
	},
	"chi: Mount of a router": func(s *rejoin.Server) http.Handler {
		inner := chi.NewRouter()
		chiadapter.Register(inner, "/", s)
		r := chi.NewRouter()
		r.Mount("/api/v1/mcp", inner)
		r.HandleFunc("/*", page)
		return r
	},
	"chi: StripSlashes": func(s *rejoin.Server) http.Handler {
		r := chi.NewRouter()
		r.Use(chimiddleware.StripSlashes)
		chiadapter.Register(r, "/api/v1/mcp", s)
		r.HandleFunc("/*", page)
		return r
	},
	"chi: Middleware": func(s *rejoin.Server) http.Handler {
		r := chi.NewRouter()
		r.Use(chiadapter.Middleware("/api/v1/mcp", s))
		r.HandleFunc("/*", page)
		return r
	},
	"echo: Group": func(s *rejoin.Server) http.Handler {
		e := echo.New()
		echoadapter.Register(e.Group("/api").Group("/:version"), "/mcp", s)
		e.Any("/*", echo.WrapHandler(http.HandlerFunc(page)))
		return e
	},
	"echo: a group of its own": func(s *rejoin.Server) http.Handler {
		e := echo.New()
		echoadapter.Register(e.Group("/api/v1/mcp"), "", s)
		e.Any("/*", echo.WrapHandler(http.HandlerFunc(page)))
		return e
	},
	"echo: RemoveTrailingSlash": func(s *rejoin.Server) http.Handler {
		e := echo.New()
		e.Pre(echomiddleware.RemoveTrailingSlash())
		echoadapter.Register(e, "/api/v1/mcp", s)
		e.Any("/*", echo.WrapHandler(http.HandlerFunc(page)))
		return e
	},
	"echo: AddTrailingSlash": func(s *rejoin.Server) http.Handler {
		e := echo.New()
		e.Pre(echomiddleware.AddTrailingSlash())
		echoadapter.Register(e, "/api/v1/mcp", s)
		e.Any("/*", echo.WrapHandler(http.HandlerFunc(page)))
		return e
	},
	"echo: Middleware before routing": func(s *rejoin.Server) http.Handler {
		e := echo.New()
		e.Pre(echoadapter.Middleware("/api/v1/mcp", s))
		e.Any("/*", echo.WrapHandler(http.HandlerFunc(page)))
		return e
	},
	"gin: Group": func(s *rejoin.Server) http.Handler {
		r := gin.New()
		ginadapter.Register(r.Group("/api").Group("/:version"), "/mcp", s)
		r.NoRoute(gin.WrapF(page))
		return r
	},
	"gin: a group of its own": func(s *rejoin.Server) http.Handler {
		r := gin.New()
		ginadapter.Register(r.Group("/api/v1/mcp"), "", s)
		r.NoRoute(gin.WrapF(page))
		return r
	},
	"gin: RedirectFixedPath": func(s *rejoin.Server) http.Handler {
		r := gin.New()
		r.RedirectFixedPath, r.RemoveExtraSlash, r.HandleMethodNotAllowed = true, true, true
		ginadapter.Register(r, "/api/v1/mcp", s)
		r.NoRoute(gin.WrapF(page))
		return r
	},
	"gin: Middleware": func(s *rejoin.Server) http.Handler {
		r := gin.New()
		r.Use(ginadapter.Middleware("/api/v1/mcp", s))
		r.NoRoute(gin.WrapF(page))
		return r
	},
}

// The final slash makes no difference, for every verb and every way to mount: there is no redirect, which would lose the method, the body or
// the header, and no page of the site in place of the answer.
func TestBothSpellingsOfThePathAreOne(t *testing.T) {
	for name, mount := range mounts {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, slow(), rejoin.Config{})
			h := mount(s)
			send := func(method, path, body string, header ...string) *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, message(t, method, path, body, header...))
				return w
			}
			for _, path := range []string{"/api/v1/mcp", "/api/v1/mcp/"} {
				opened := send(http.MethodPost, path, initialize)
				require.Equal(t, http.StatusOK, opened.Code, path)
				session := []string{"Mcp-Session-Id", opened.Header().Get("Mcp-Session-Id")}
				require.NotEmpty(t, session[1])
				require.Equal(t, http.StatusAccepted, send(http.MethodPost, path, ready, session...).Code, path)
				require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"result":{}}`, send(http.MethodPost, path, ping, session...).Body.String())
				for method, status := range map[string]int{
					http.MethodOptions: 405, http.MethodHead: 405, http.MethodPut: 405, http.MethodPatch: 405, http.MethodTrace: 405, http.MethodGet: 406,
				} {
					w := send(method, path, "", append(session, "Accept", "text/html")...)
					require.Equal(t, status, w.Code, "%s %s", method, path)
					require.Empty(t, w.Header().Get("Location"))
					require.Equal(t, "application/json", w.Header().Get("Content-Type"))
				}
				require.Equal(t, http.StatusBadRequest, send(http.MethodGet, path, "", append(session, "Last-Event-ID", "x")...).Code)
				require.Equal(t, http.StatusNoContent, send(http.MethodDelete, path, "", session...).Code, path)
				require.Equal(t, http.StatusNotFound, send(http.MethodDelete, path, "", session...).Code, path)
			}
			require.Equal(t, "<html>", send(http.MethodGet, "/elsewhere", "").Body.String(), "the site is there")
		})
	}
}
