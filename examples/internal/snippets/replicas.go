package snippets

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Replica serves an app in one process of several, until it is told to end.
func Replica(app rejoin.App, store eventstore.Store) error {
	srv, err := rejoin.NewServer(app, rejoin.Config{
		Store:   store, // of the engine that all processes share
		Cluster: &rejoin.Cluster{Name: "reports", Self: "http://" + net.JoinHostPort(os.Getenv("POD_IP"), "8080")},
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if srv.Draining() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var closing atomic.Bool
	router := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if closing.Load() {
			w.Header().Set("Connection", "close")
		}
		mux.ServeHTTP(w, r)
	})
	web := &http.Server{Handler: router, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	port, err := net.Listen("tcp", ":8080")
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(port) }()
	stopping, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	select {
	case err := <-failed:
		return err
	case <-stopping.Done():
	}
	settled := time.After(5 * time.Second) // every balancer knows by then that this process is not ready
	drain, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	drained := srv.Drain(drain) // running calls end; a *rejoin.DrainError counts those that did not
	<-settled
	_ = port.Close()    // from now on balancers try another process,
	closing.Store(true) // and send at most one more request on each open connection
	<-time.After(time.Second)
	shutdown, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ended := web.Shutdown(shutdown)
	srv.Close() // leaves the cluster
	return errors.Join(drained, ended)
}
