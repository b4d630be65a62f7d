package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// Main is the main function of examples that do not show how to listen. It calls run with a context that ends with the first signal.
func Main(run func(ctx context.Context, ln net.Listener, closeAfter time.Duration) error) {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	closeAfter := flag.Duration("close-after", 50*time.Second, "let clients go once a response has been open so long")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	ln, err := net.Listen("tcp", *addr)
	if err == nil {
		fmt.Printf("listening on http://%s/mcp\n", ln.Addr())
		err = run(ctx, ln, *closeAfter)
	}
	if err != nil {
		slog.Error("ended", "error", err)
		os.Exit(1)
	}
}

// Serve serves until ctx ends. Then it accepts no new work, gives running calls and the clients that still have results to fetch ten
// seconds, and closes.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, srv *rejoin.Server) error {
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	drained := srv.Drain(drain)
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(drained, web.Shutdown(shutdown))
}
