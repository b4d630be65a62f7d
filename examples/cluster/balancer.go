package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
)

// balancer sends each request to the next process in turn, over a new connection, so requests of one session reach different processes. In
// production, use a real load balancer (docs/replicas.md).
type balancer struct {
	mu        sync.Mutex
	addresses []string
	turn      int
}

func (b *balancer) add(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addresses = append(b.addresses, address)
}

func (b *balancer) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	return b.addresses[b.turn%len(b.addresses)]
}

// dial connects to the next process. One that refuses has not got the request, so another one may.
func (b *balancer) dial(ctx context.Context, network, _ string) (conn net.Conn, err error) {
	b.mu.Lock()
	attempts := len(b.addresses)
	b.mu.Unlock()
	err = errors.New("no process has started")
	for range attempts {
		var dialer net.Dialer
		if conn, err = dialer.DialContext(ctx, network, b.next()); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// handler is the balancer's door.
func (b *balancer) handler() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host // dial decides where it goes
		},
		Transport: &http.Transport{DialContext: b.dial, DisableKeepAlives: true, DisableCompression: true},
		ErrorLog:  log.New(io.Discard, "", 0), // that a process was killed, the timeline says
	}
}
