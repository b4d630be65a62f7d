package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// longJob is the tool. It lets its client go after every third step, and works on while nobody is connected.
func longJob(ctx context.Context, steps int, work workFunc) (string, error) {
	h := rejoin.HandleFromContext(ctx)
	for step := 1; step <= steps; step++ {
		if err := work(ctx, step); err != nil {
			return "", err
		}
		_ = h.Progress(float64(step), float64(steps), "") // nothing that a job should fail for
		if step%3 == 0 {
			_ = h.CloseStream(0) // an error means only that this client stays connected
		}
	}
	return fmt.Sprintf("%d steps done", steps), nil
}

// newServer puts rejoin in front of the tool, and a router in front of rejoin.
func newServer(mount mountFunc, work workFunc) (*rejoin.Server, http.Handler, error) {
	app := rejoin.NewApp(info, methods(work))
	srv, err := rejoin.NewServer(app, rejoin.Config{Policy: rejoin.Policy{Retry: 450 * time.Millisecond}})
	if err != nil {
		return nil, nil, err
	}
	return srv, mount("/mcp", srv), nil
}
