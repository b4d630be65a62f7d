// Command gin is the quickstart on gin: go run ./examples/quickstart -router gin builds and runs it.
package main

import (
	"context"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"

	"github.com/rejoin-mcp/rejoin"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	"github.com/rejoin-mcp/rejoin/examples/quickstart/internal/show"
)

func main() {
	os.Exit(show.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, mount, nil))
}

func mount(path string, srv *rejoin.Server) http.Handler {
	gin.SetMode(gin.ReleaseMode) // gin says more than that on stdout
	r := gin.New()
	ginadapter.Register(r, path, srv)
	return r
}
