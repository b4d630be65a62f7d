package middleware

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// mount puts a server behind a router and its middleware.
type mount func(*rejoin.Server) http.Handler

func onStdlib() mount {
	return func(s *rejoin.Server) http.Handler {
		mux := http.NewServeMux()
		stdadapter.Register(mux, "/mcp", s)
		return mux
	}
}

func onChi(mw ...func(http.Handler) http.Handler) mount {
	return func(s *rejoin.Server) http.Handler {
		r := chi.NewRouter()
		r.Use(mw...)
		chiadapter.Register(r, "/mcp", s)
		return r
	}
}

func onEcho(mw ...echo.MiddlewareFunc) mount {
	return func(s *rejoin.Server) http.Handler {
		e := echo.New()
		e.Use(mw...)
		echoadapter.Register(e, "/mcp", s)
		return e
	}
}

func onGin(mw ...gin.HandlerFunc) mount {
	return func(s *rejoin.Server) http.Handler {
		e := gin.New()
		e.Use(mw...)
		ginadapter.Register(e, "/mcp", s)
		return e
	}
}

// around wraps a whole router into middleware of net/http.
func around(inner mount, mw func(http.Handler) http.Handler) mount {
	return func(s *rejoin.Server) http.Handler { return mw(inner(s)) }
}

// routers are the four routers without middleware.
var routers = []struct {
	name  string
	mount mount
}{
	{"net/http", onStdlib()}, {"chi", onChi()}, {"echo", onEcho()}, {"gin", onGin()},
}
