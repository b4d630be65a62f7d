package operation_test

import (
	"context"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// replica is one of several servers behind a proxy.
type replica struct {
	*rejoin.Server
	http  *http.Server
	conns chan net.Conn
	once  sync.Once
	down  chan struct{}
}

func (r *replica) Accept() (net.Conn, error) {
	select {
	case c := <-r.conns:
		return c, nil
	case <-r.down:
		return nil, net.ErrClosed
	}
}

func (r *replica) Close() error   { r.once.Do(func() { close(r.down) }); return nil }
func (r *replica) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9)} }

func (r *replica) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case r.conns <- there:
		return here, nil
	case <-r.down:
		return nil, net.ErrClosed
	}
}

// balancer is a load balancer in front of replicas: new sessions go to the ready replicas in turn, and a session stays at its replica while that is up.
type balancer struct {
	proxy    httputil.ReverseProxy
	replicas []*replica

	mu    sync.Mutex
	turn  int
	homes map[string]int
}

// balance starts n replicas of an app, and a balancer in front of them.
func balance(t *testing.T, app rejoin.App, n int) *balancer {
	t.Helper()
	b := &balancer{homes: map[string]int{}}
	transport := &http.Transport{DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		return b.replicas[addr[0]-'0'].dial()
	}}
	t.Cleanup(transport.CloseIdleConnections)
	for range n {
		s, err := rejoin.NewServer(app, rejoin.Config{})
		require.NoError(t, err)
		r := &replica{Server: s, conns: make(chan net.Conn), down: make(chan struct{})}
		r.http = &http.Server{Handler: http.HandlerFunc(s.Serve), ErrorLog: log.New(t.Output(), "", 0)}
		go func() { _ = r.http.Serve(r) }()
		b.replicas = append(b.replicas, r)
		t.Cleanup(func() {
			s.Close()
			_ = r.http.Close()
		})
	}
	b.proxy = httputil.ReverseProxy{
		FlushInterval: -1, Transport: transport, ErrorLog: log.New(t.Output(), "proxy: ", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = &url.URL{Scheme: "http", Host: string(rune('0' + b.pick(r.In.Header.Get("Mcp-Session-Id")))), Path: r.In.URL.Path}
		},
		ModifyResponse: func(res *http.Response) error {
			if id := res.Header.Get("Mcp-Session-Id"); id != "" {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.homes[id] = int(res.Request.URL.Host[0] - '0')
			}
			return nil
		},
	}
	return b
}

func (b *balancer) pick(session string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.homes[session]; ok && !b.replicas[at].isDown() {
		return at
	}
	for {
		b.turn++
		at := b.turn % len(b.replicas)
		if !b.replicas[at].Draining() { // as its readiness route would say
			return at
		}
	}
}

func (r *replica) isDown() bool {
	select {
	case <-r.down:
		return true
	default:
		return false
	}
}

// client is a new client, with a session at one of the replicas.
func (b *balancer) client(t *testing.T, app rejoin.App, version string) *rejointest.Client {
	t.Helper()
	return rejointest.New(t, app, rejointest.Config{Version: version, Handler: func(*rejoin.Server) http.Handler { return &b.proxy }})
}

// A guest is a client of a replica, with what it waits for.
type guest struct {
	*rejointest.Client
	tool         *kit.ManualTool
	call, listen *rejointest.Call
}

// guests opens two sessions for each state of a client, one at each of two replicas. It returns those of the first replica first.
func (b *balancer) guests(t *testing.T, app rejoin.App, next func() *kit.ManualTool) (at [2]map[string]*guest) {
	t.Helper()
	at = [2]map[string]*guest{{}, {}}
	for name, version := range map[string]string{"undecided": kit.Polling, "attached": kit.Polling, "parked": kit.Polling, "lost": kit.Polling, "cannot poll": kit.Legacy} {
		for range at {
			g := &guest{Client: b.client(t, app, version)}
			g.listen = g.Listen()
			g.call = g.CallTool("x", nil)
			g.tool = next()
			b.mu.Lock()
			home := b.homes[g.tool.Session().ID()]
			b.mu.Unlock()
			at[home][name] = g
			if name == "undecided" {
				continue
			}
			require.NoError(t, g.tool.Progress(1, 0, ""))
			synctest.Wait()
			switch name {
			case "parked":
				require.NoError(t, g.tool.CloseStream(0))
				g.call.WaitClosed()
			case "lost":
				g.call.Cut()
			}
		}
	}
	require.Len(t, at[0], 5)
	require.Len(t, at[1], 5)
	return at
}

// One of two replicas is drained and shut down. Its clients get everything that they wait for, new clients go to the other replica, and the clients of
// that one notice nothing.
func TestARollingRestart(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		b := balance(t, app, 2)
		at := b.guests(t, app, next)
		old := b.replicas[0]
		opened := old.Stats().Opened
		done := kit.Drain(t, old.Server, time.Hour)
		for name, g := range at[0] {
			want := "200 sse primer@0 retry closed"
			if name == "cannot poll" {
				want = "200 sse comment open"
			}
			require.Equal(t, want, kit.Last(g.listen), name)
			body, res := kit.Post(t, g.Client, kit.Ping)
			require.Equal(t, `503 error(-32000,"mine")`, kit.Refusal(t, body, res), name)
			require.NotEmpty(t, res.Header.Get("Retry-After"))
			if name == "parked" || name == "lost" {
				g.call.Poll()
				require.Equal(t, "200 sse primer@1 open", kit.Last(g.call), name)
			}
			require.NoError(t, g.tool.Notify("notifications/x", nil))
		}
		for range 3 {
			b.client(t, app, kit.Polling)
		}
		require.Equal(t, opened, old.Stats().Opened, "new sessions are opened on the other one")
		for name, g := range at[0] {
			require.Empty(t, done)
			g.tool.Returns(name)
			require.Equal(t, `"`+name+`"`, string(g.call.Result()))
		}
		require.NoError(t, <-done)
		shutsDown(t, old.http)
		for name, g := range at[0] {
			require.NotContains(t, g.call.String(), "broken", name)
			require.NotContains(t, g.listen.String(), "broken", name)
			require.Zero(t, g.listen.Open(), name)
			body, res := kit.Post(t, g.Client, kit.Ping)
			require.Equal(t, "404 error(-32001,null)", kit.Refusal(t, body, res), "%s: the other one has never heard of it", name)
		}
		for name, g := range at[1] {
			require.Equal(t, 1, g.listen.Open(), name)
			g.tool.Returns(name)
			require.Equal(t, `"`+name+`"`, string(g.call.Result()))
			require.NotContains(t, g.call.String(), "broken", name)
		}
	})
}

// If a drain takes too long, waiting clients are told, between two events, and disconnected clients are told to open a new session.
func TestARestartThatCannotWait(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		b := balance(t, app, 2)
		at := b.guests(t, app, next)
		old := b.replicas[0]
		require.Equal(t, &rejoin.DrainError{Running: 5}, <-kit.Drain(t, old.Server, time.Minute))
		shutsDown(t, old.http)
		for name, g := range at[0] {
			if name == "parked" || name == "lost" {
				g.call.Poll()
				require.Equal(t, "404 error(-32001,null) answered", kit.Last(g.call), name)
			} else {
				require.JSONEq(t, `{"reason":"shutdown"}`, string(g.call.Err().Data), name)
			}
			require.ErrorIs(t, g.tool.Cause(), rejoin.ErrShutdown)
			require.NotContains(t, g.call.String(), "broken", name)
			require.NotContains(t, g.listen.String(), "broken", name)
			require.Zero(t, g.listen.Open(), name)
		}
		require.Zero(t, old.Stats().Sessions)
		require.EqualValues(t, 5, b.replicas[1].Stats().Sessions)
	})
}

// shutsDown shuts an http.Server down, which must wait for nothing (Shutdown polls the connections at intervals).
func shutsDown(t *testing.T, s *http.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
}
