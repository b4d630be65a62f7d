// Package program is the main program of the fixture servers: it serves an app behind a chosen router.
//
//	fixture -addr 127.0.0.1:0 -router stdlib -eras both -processes 1
//
// It prints one line on stdout once it listens, and logs to stderr:
//
//	listening on http://127.0.0.1:PORT/mcp
//
// With -processes 2 the app runs twice, on two servers of one cluster that share nothing but its engine. Each is behind a router and a listener of
// its own, and what is printed is the address of a front that sends each request to the next of them.
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
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/conformance/internal/spray"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

const (
	path = "/mcp"
	// The time for running calls, and then for connections, to end. Together they are less than the time after which conformance/run kills the
	// process.
	drainFor    = 2 * time.Second
	shutdownFor = 2 * time.Second
)

// Main runs the program that serves an app on one URL. newApp is called once for each process of the cluster.
func Main(newApp func() rejoin.App) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	err := run(ctx, newApp, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "fixture:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It returns nil if it ended cleanly.
func run(ctx context.Context, newApp func() rejoin.App, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("fixture", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:0", "address to listen on")
	router := flags.String("router", "stdlib", "router to be mounted on: "+routerNames())
	era := flags.String("eras", "both", "generations of the protocol that it serves: "+eraNames())
	processes := flags.Int("processes", 1, "servers of one cluster, which take turns")
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
	if *processes < 1 {
		return fmt.Errorf("%d processes serve nothing", *processes)
	}

	log := slog.New(slog.NewTextHandler(stderr, nil))
	cfg, err := config(*era, log)
	if err != nil {
		return err
	}
	f := fixture{log: log, failed: make(chan error, *processes+1)}
	front, err := f.start(newApp, cfg, mount, *addr, *processes)
	if err == nil {
		_, err = fmt.Fprintf(stdout, "listening on http://%s%s\n", front, path)
	}
	if err == nil {
		select {
		case err = <-f.failed:
		case <-ctx.Done():
			return f.shutdown()
		}
	}
	return errors.Join(err, f.close())
}

// fixture is what runs.
type fixture struct {
	log     *slog.Logger
	servers []*rejoin.Server
	fronts  []*http.Server // those of the servers, and the one before them if there are several
	failed  chan error     // of a front that does not serve any more
}

// start starts the servers, and returns the address of the whole.
func (f *fixture) start(
	newApp func() rejoin.App, cfg rejoin.Config, mount func(string, *rejoin.Server) http.Handler, addr string, processes int,
) (string, error) {
	if processes == 1 {
		return f.process(newApp(), cfg, mount, addr)
	}
	engine := cluster.NewMemory(eventstore.MemoryConfig{})
	var addresses []string
	for range processes {
		own := cfg
		own.Store, own.Cluster = engine, &rejoin.Cluster{Name: "fixture"}
		address, err := f.process(newApp(), own, mount, "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		addresses = append(addresses, address)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	return f.serve(listener, spray.New(addresses...)), nil
}

// process starts one server.
func (f *fixture) process(app rejoin.App, cfg rejoin.Config, mount func(string, *rejoin.Server) http.Handler, addr string) (string, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	if cfg.Cluster != nil {
		cfg.Cluster.Self = "http://" + listener.Addr().String()
	}
	srv, err := rejoin.NewServer(app, cfg)
	if err != nil {
		return "", errors.Join(err, listener.Close())
	}
	f.servers = append(f.servers, srv)
	return f.serve(listener, mount(path, srv)), nil
}

func (f *fixture) serve(listener net.Listener, handler http.Handler) (address string) {
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(f.log.Handler(), slog.LevelWarn)}
	f.fronts = append(f.fronts, server)
	go func() { f.failed <- server.Serve(listener) }()
	return listener.Addr().String()
}

// shutdown ends calls before the connections that carry their answers. Calls that do not end in time are not an error: a suite that failed
// leaves some behind.
func (f *fixture) shutdown() error {
	drain, cancel := context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	var drained sync.WaitGroup
	for _, srv := range f.servers {
		drained.Go(func() {
			if err := srv.Drain(drain); err != nil {
				f.log.Warn("calls were cut off", "error", err)
			}
		})
	}
	drained.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownFor)
	defer cancel()
	for _, server := range slices.Backward(f.fronts) {
		if err := server.Shutdown(ctx); err != nil {
			return errors.Join(fmt.Errorf("connections did not end: %w", err), f.close())
		}
	}
	return f.close()
}

// close breaks off what still runs.
func (f *fixture) close() (err error) {
	for _, server := range f.fronts {
		err = errors.Join(err, server.Close())
	}
	for _, srv := range f.servers {
		srv.Close()
	}
	return err
}
