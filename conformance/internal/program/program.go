// Package program is the main program of the fixture servers: it serves an app behind a chosen router.
//
//	fixture -addr 127.0.0.1:0 -router stdlib -eras both
//
// It prints one line on stdout once it listens, and logs to stderr:
//
//	listening on http://127.0.0.1:PORT/mcp
//
// SIGINT and SIGTERM end it in good order: it waits for running calls first, then for connections.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

const (
	path = "/mcp"
	// The time for running calls, and then for connections, to end. Together they are less than the time after which conformance/run kills the
	// process.
	drainFor    = 2 * time.Second
	shutdownFor = 2 * time.Second
)

// Main runs the program that serves app on one URL.
func Main(app rejoin.App) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	err := run(ctx, app, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "fixture:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It returns nil if it ended cleanly.
func run(ctx context.Context, app rejoin.App, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("fixture", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:0", "address to listen on")
	router := flags.String("router", "stdlib", "router to be mounted on: "+routerNames())
	era := flags.String("eras", "both", "generations of the protocol that it serves: "+eraNames())
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	mount, ok := routers[*router]
	if !ok {
		return fmt.Errorf("unknown router %q; there is %s", *router, routerNames())
	}

	log := slog.New(slog.NewTextHandler(stderr, nil))
	cfg, err := config(*era, log)
	if err != nil {
		return err
	}
	srv, err := rejoin.NewServer(app, cfg)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mount(path, srv), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if _, err := fmt.Fprintf(stdout, "listening on http://%s%s\n", listener.Addr(), path); err != nil {
		return errors.Join(err, server.Close())
	}

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	return shutdown(srv, server, log)
}

// shutdown ends calls before the connections that carry their answers. Calls that do not end in time are not an error: a suite that failed
// leaves some behind.
func shutdown(srv *rejoin.Server, server *http.Server, log *slog.Logger) error {
	drain, cancel := context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	if err := srv.Drain(drain); err != nil {
		log.Warn("calls were cut off", "error", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownFor)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("connections did not end: %w", err), server.Close())
	}
	return nil
}
