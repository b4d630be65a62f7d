package main

import (
	"context"
	"net/http"
	"os"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/examples/quickstart/internal/show"
)

func main() {
	os.Exit(show.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, mount, others))
}

func mount(path string, srv *rejoin.Server) http.Handler {
	mux := http.NewServeMux()
	stdadapter.Register(mux, path, srv)
	return mux
}
