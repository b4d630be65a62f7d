//go:build redis

package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// The servers of a fleet are all in the test's process, but they share nothing: each has a port, a client of the engine and connections of its own,
// which end when it is killed. Sockets and the clock are real, because the engine is.

const (
	// fleetLease is the shortest lease that there is.
	fleetLease = time.Second
	fleetRetry = 100 * time.Millisecond
	// inTime is the promise for a call whose owner dies: two leases, Policy.Retry, and 5 s.
	inTime = 2*fleetLease + fleetRetry + 5*time.Second
)

// replica is one process of a cluster.
type replica struct {
	*rejoin.Server

	url   string
	web   *http.Server
	redis *link
	calls chan *toolCall
}

// startReplicas starts processes of one cluster.
func startReplicas(t *testing.T, engine *redistest.Server, cluster string, count int) (all []*replica) {
	t.Helper()
	for range count {
		all = append(all, startReplica(t, engine, cluster))
	}
	return all
}

func startReplica(t *testing.T, engine *redistest.Server, cluster string) *replica {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(fleetLog(t), nil))
	r := &replica{redis: &link{conns: map[net.Conn]bool{}}, calls: make(chan *toolCall, 100)}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{engine.Addr()}, DialCtxFn: r.redis.dial, ConnWriteTimeout: time.Second, DisableCache: true,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	store, err := redisstore.New(redisstore.Config{Client: client, Logger: logger})
	require.NoError(t, err)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.url = "http://" + port.Addr().String()
	r.Server, err = rejoin.NewServer(r.app(), rejoin.Config{
		Store: store, StoreTimeout: time.Second, Eras: rejoin.EraBoth, Logger: logger,
		Policy:  rejoin.Policy{Retry: fleetRetry, TaskAfter: 50 * time.Millisecond},
		Tasks:   rejoin.Tasks{PollInterval: fleetRetry},
		Cluster: &rejoin.Cluster{Name: cluster, Self: r.url, Lease: fleetLease},
	})
	require.NoError(t, err)
	r.web = &http.Server{Handler: stdadapter.New(r.Server)}
	served := make(chan error, 1)
	go func() { served <- r.web.Serve(port) }()
	t.Cleanup(func() {
		r.Close()
		require.NoError(t, r.web.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return r
}

// fleetLog is the log of a test, which processes write to for as long as it runs: what they do after it, they do for a while longer.
func fleetLog(t *testing.T) io.Writer {
	l := &mortalLog{out: t.Output()}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.out = io.Discard
	})
	return l
}

type mortalLog struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *mortalLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// kill ends a process as kill -9 does: its connections break, to the engine first, so that nothing of what follows is recorded.
func (r *replica) kill(t *testing.T) {
	t.Helper()
	r.redis.cut()
	require.NoError(t, r.web.Close())
}

// drain begins a planned end. The channel gets the error of Drain when the process has ended.
func (r *replica) drain(t *testing.T) (ended chan error) {
	t.Helper()
	ended = make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		drained := r.Drain(ctx)
		ended <- errors.Join(drained, r.web.Shutdown(ctx))
		r.Close()
	}()
	until(t, func() error {
		if !r.Draining() {
			return errors.New("it does not drain")
		}
		return nil
	})
	return ended
}

// link is the way of a process to the engine.
type link struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool
}

func (l *link) dial(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		conn.Close()
		return nil, errors.New("the process is dead")
	}
	l.conns[conn] = true
	return conn, nil
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for conn := range l.conns {
		conn.Close()
	}
}

// toolCall is a call of the tool work, which the test controls.
type toolCall struct {
	*rejoin.Handle

	ctx    context.Context
	answer chan any
}

// app has the tool work, and two that use the session's state.
func (r *replica) app() rejoin.App {
	return rejoin.NewToolApp(rejoin.Info{Name: "fleet", Version: "1"},
		rejoin.Tool{Name: "work", Run: func(ctx context.Context, _ *rejoin.Request) (any, error) {
			c := &toolCall{rejoin.HandleFromContext(ctx), ctx, make(chan any)}
			r.calls <- c
			select {
			case result := <-c.answer:
				return result, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}},
		rejoin.Tool{Name: "remember", Run: func(ctx context.Context, _ *rejoin.Request) (any, error) {
			return "remembered", rejoin.HandleFromContext(ctx).Session().SaveState([]byte("the state"))
		}},
		rejoin.Tool{Name: "recall", Run: func(ctx context.Context, _ *rejoin.Request) (any, error) {
			return string(rejoin.HandleFromContext(ctx).Session().SavedState()), nil
		}},
	)
}

// next is the next call of work in the process.
func (r *replica) next(t *testing.T) *toolCall { return soon(t, r.calls) }

// returns ends the call.
func (c *toolCall) returns(t *testing.T, result any) {
	t.Helper()
	select {
	case c.answer <- result:
	case <-c.ctx.Done():
		t.Fatalf("the call was cancelled: %v", context.Cause(c.ctx))
	case <-time.After(patience):
		t.Fatal("the tool has returned already")
	}
}

// soon receives what must come.
func soon[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatalf("nothing has come in %v", patience)
	}
	return got
}

// adoptedBy sums up what processes have adopted.
func adoptedBy(all ...*replica) (n int64) {
	for r := range slices.Values(all) {
		n += r.Stats().Adopted
	}
	return n
}
