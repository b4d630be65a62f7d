package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/examples/internal/timeline"
)

const (
	// lease is short, so that the demo is. A process that is paused for longer, for any reason, loses its sessions: the default is 10 s.
	lease = 2 * time.Second
	// limit is how long the demo may take.
	limit = time.Minute
)

// demo starts an engine, if there is none, three processes and a balancer, plays with them, and ends them.
func demo(ctx context.Context, redis string, stdout io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	if redis == "" {
		address, end, failed := startEngine(ctx)
		if failed != nil {
			return failed
		}
		redis = address
		defer func() { err = errors.Join(err, end()) }()
	}
	b := &balancer{}
	front, err := serveAt(b.handler())
	if err != nil {
		return err
	}
	defer front.Close()
	url := "http://" + front.Addr + "/mcp"
	see := timeline.New(stdout, "rejoin cluster: three processes behind a balancer, at "+url+", over Redis at "+redis, "way of the request")
	w := newWatch(see)
	ear, err := serveAt(w)
	if err != nil {
		return err
	}
	defer ear.Close()

	p := &play{see: see, watch: w, url: url, children: map[string]*child{}}
	for _, name := range []string{"A", "B", "C"} {
		c, err := startChild(name, redis, "http://"+ear.Addr, lease)
		if err != nil {
			return err
		}
		defer c.kill()
		p.children[name] = c
		address, err := w.address(ctx, c)
		if err != nil {
			return err
		}
		if err := c.answers(ctx, address); err != nil {
			return err
		}
		b.add(address)
		see.Line(timeline.None, "", fmt.Sprintf("  %s is process %d, at http://%s", name, c.cmd.Process.Pid, address))
	}
	return p.run(ctx)
}

// serveAt serves at a free port, until the server is closed.
func serveAt(h http.Handler) (*http.Server, error) {
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{Addr: port.Addr().String(), Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.Serve(port); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // nothing else closes its port
		}
	}()
	return s, nil
}
