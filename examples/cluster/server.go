package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// server is one process of several that share their sessions.
type server struct {
	redis      string // host:port
	app        rejoin.App
	lease      time.Duration // 0: the default, 10 s
	middleware func(http.Handler) http.Handler
}

// serve serves until ctx ends, at SIGTERM. Then calls that run have five minutes to end, and the process leaves the cluster.
func (s *server) serve(ctx context.Context, port net.Listener) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:      []string{s.redis},
		ConnWriteTimeout: 2 * time.Second, // how soon an engine that hangs is noticed
		DisableCache:     true,            // client-side caching is not used
	})
	if err != nil {
		return err
	}
	defer client.Close()
	store, err := redisstore.New(redisstore.Config{Client: client})
	if err != nil {
		return err
	}
	srv, err := rejoin.NewServer(s.app, rejoin.Config{
		Store: store,
		Cluster: &rejoin.Cluster{
			Name:  "example",
			Self:  "http://" + port.Addr().String(), // where the other processes reach this one; in Kubernetes the pod's address
			Lease: s.lease,
		},
		Policy: rejoin.Policy{CloseAfter: 50 * time.Second}, // before a proxy gives up after a minute
	})
	if err != nil {
		return err
	}
	defer srv.Close() // leaves the cluster
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
	web := &http.Server{Handler: s.middleware(router), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(port) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}

	ctx = context.WithoutCancel(ctx)
	settled := time.After(5 * time.Second) // every balancer knows by then that this process is not ready
	drain, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	drained := srv.Drain(drain) // running calls end; a *rejoin.DrainError counts those that did not
	<-settled
	_ = port.Close()    // from now on balancers try another process,
	closing.Store(true) // and send at most one more request on each open connection
	<-time.After(time.Second)
	shutdown, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return errors.Join(drained, web.Shutdown(shutdown))
}
