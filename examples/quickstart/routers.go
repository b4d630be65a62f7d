package main

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// mountFunc gives a server its place on a router.
type mountFunc func(path string, srv *rejoin.Server) http.Handler

// routers are what -router chooses from.
var routers = map[string]mountFunc{
	"stdlib": func(path string, srv *rejoin.Server) http.Handler {
		mux := http.NewServeMux()
		stdadapter.Register(mux, path, srv)
		return mux
	},
	"chi": func(path string, srv *rejoin.Server) http.Handler {
		r := chi.NewRouter()
		chiadapter.Register(r, path, srv)
		return r
	},
	"echo": func(path string, srv *rejoin.Server) http.Handler {
		e := echo.New()
		echoadapter.Register(e, path, srv)
		return e
	},
	"gin": func(path string, srv *rejoin.Server) http.Handler {
		gin.SetMode(gin.ReleaseMode) // gin says more than that on stdout
		r := gin.New()
		ginadapter.Register(r, path, srv)
		return r
	},
}

func routerNames() string {
	return strings.Join(slices.Sorted(maps.Keys(routers)), ", ")
}
