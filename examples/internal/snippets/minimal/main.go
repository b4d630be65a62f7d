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

//nolint:errcheck // as the README has it: an error is nothing that the job should fail for
func main() {
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(ctx context.Context, r *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		for step := range 600 {
			time.Sleep(time.Second) // a long job
			h.Progress(float64(step+1), 600, "")
			if step%50 == 49 {
				h.CloseStream(0) // the client polls from here on; nothing is lost
			}
		}
		return map[string]any{"content": []any{map[string]any{"type": "text", "text": "done"}}}, nil
	})
	srv, err := rejoin.NewServer(app, rejoin.Config{})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", mux))
}
