// Command chi is the quickstart on chi: go run ./examples/quickstart -router chi builds and runs it.
package main

import (
	"context"
	"net/http"
	"os"

	"github.com/go-chi/chi/v5"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	"github.com/rejoin-mcp/rejoin/examples/quickstart/internal/show"
)

func main() {
	os.Exit(show.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, mount, nil))
}

func mount(path string, srv *rejoin.Server) http.Handler {
	r := chi.NewRouter()
	chiadapter.Register(r, path, srv)
	return r
}
