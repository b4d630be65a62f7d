package show

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

const (
	pace     = 200 * time.Millisecond // the time of a step of the tool
	patience = 10 * time.Second       // how long the end waits for clients that have something to fetch
)

// host serves until ctx ends. Then it accepts no new work, waits for running calls and for clients that still have results to fetch, and
// closes.
func host(ctx context.Context, ln net.Listener, handler http.Handler, srv *rejoin.Server) error {
	web := &http.Server{Handler: handler, ReadHeaderTimeout: patience}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx = context.WithoutCancel(ctx)
	drain, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	drained := srv.Drain(drain)
	shutdown, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return errors.Join(drained, web.Shutdown(shutdown))
}

// pause waits. If ctx ends, it returns the cause.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
