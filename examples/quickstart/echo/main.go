// Command echo is the quickstart on echo: go run ./examples/quickstart -router echo builds and runs it.
package main

import (
	"context"
	"net/http"
	"os"

	"github.com/labstack/echo/v4"

	"github.com/rejoin-mcp/rejoin"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	"github.com/rejoin-mcp/rejoin/examples/quickstart/internal/show"
)

func main() {
	os.Exit(show.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, mount, nil))
}

func mount(path string, srv *rejoin.Server) http.Handler {
	e := echo.New()
	echoadapter.Register(e, path, srv)
	return e
}
