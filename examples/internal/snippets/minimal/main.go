// Command minimal is the server of the README.
package main

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

func main() {
	longJob := func(ctx context.Context, r *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		for step := range 60 {
			select {
			case <-time.After(10 * time.Second): // some work
			case <-ctx.Done(): // the client has cancelled it, or ended its session
				return nil, context.Cause(ctx)
			}
			_ = h.Progress(float64(step+1), 60, "")
			_ = h.CloseStream(0) // the client polls from here on; nothing is lost
		}
		return rejoin.Text("done"), nil
	}
	app := rejoin.NewToolApp(rejoin.Info{Name: "demo", Version: "1.0"}, rejoin.Tool{Name: "long_job", Description: "Takes ten minutes.", Run: longJob})
	srv, err := rejoin.NewServer(app, rejoin.Config{})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/mcp", stdadapter.New(srv))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
