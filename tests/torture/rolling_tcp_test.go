package torture_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	calls "github.com/rejoin-mcp/rejoin/client"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// replica is a process on a real socket.
type replica struct {
	*rejoin.Server
	http     *http.Server
	listener net.Listener
}

func (r *replica) address() string { return r.listener.Addr().String() }

// front is a reverse proxy without stickiness, which counts answers.
type front struct {
	http.Handler

	mu       sync.Mutex
	servers  []string
	turn     int
	statuses map[int]int
	faults   []error
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{statuses: map[int]int{}}
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{DialContext: f.dial, DisableKeepAlives: true, DisableCompression: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "cluster"})
			r.Out.Host = r.In.Host
		},
		FlushInterval: -1,
		ModifyResponse: func(res *http.Response) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.statuses[res.StatusCode]++
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				f.mu.Lock()
				f.faults = append(f.faults, fmt.Errorf("%s: %w", r.Method, err))
				f.mu.Unlock()
			}
			w.WriteHeader(http.StatusBadGateway)
		},
		ErrorLog: log.New(io.Discard, "", 0), // it reports clients that leave
	}
	f.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // else the proxy would break the connection if an answer begins before it has looked for the end of the body
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
	return f
}

// dial connects to the next server, or to the one after it if that refuses the connection.
func (f *front) dial(ctx context.Context, network, _ string) (c net.Conn, err error) {
	f.mu.Lock()
	f.turn++
	first, servers := f.turn, slices.Clone(f.servers)
	f.mu.Unlock()
	for i := range servers {
		var d net.Dialer
		if c, err = d.DialContext(ctx, network, servers[(first+i)%len(servers)]); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// serves adds a server, or takes it away.
func (f *front) serves(server string, yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = slices.DeleteFunc(f.servers, func(s string) bool { return s == server })
	if yes {
		f.servers = append(f.servers, server)
	}
}

// startReplica starts a process with a tool that reports progress.
func startReplica(t *testing.T, engine *cluster.Memory) *replica {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &replica{listener: listener}
	r.Server, err = rejoin.NewServer(countingTool(), rejoin.Config{
		Store: engine, Logger: slog.New(slog.DiscardHandler), Policy: rejoin.Policy{CloseAfter: 200 * time.Millisecond, Retry: 50 * time.Millisecond},
		Cluster: &rejoin.Cluster{Name: "tcp", Self: "http://" + r.address(), Lease: 2 * time.Second},
	})
	require.NoError(t, err)
	r.http = &http.Server{Handler: stdadapter.New(r.Server), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = r.http.Serve(listener)
	}()
	t.Cleanup(func() {
		r.Close()
		_ = r.http.Close()
		<-served
	})
	return r
}

// countingTool takes the steps that a call asks for.
func countingTool() rejoin.App {
	return rejoin.NewApp(kit.Info, kit.RawResults(func(ctx context.Context, r *rejoin.Request) (any, error) {
		var p struct{ Steps int }
		if err := r.Bind(&p); err != nil {
			return nil, err
		}
		h := rejoin.HandleFromContext(ctx)
		for i := range p.Steps {
			if err := h.Progress(float64(i), 0, ""); err != nil {
				return nil, err
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return p.Steps, nil
	}))
}

// stop ends a process as a deployment does. Its grace is longer than its calls.
func (r *replica) stop(ctx context.Context, f *front) error {
	err := r.Drain(ctx)
	f.serves(r.address(), false) // a connection that the system has accepted, and the process has not, would be reset
	<-time.After(50 * time.Millisecond)
	err = errors.Join(err, r.listener.Close(), r.http.Shutdown(ctx))
	r.Close()
	return err
}

// caller calls the tool until over is closed, and returns how often.
func caller(ctx context.Context, url string, seed int, over <-chan struct{}) (n int, err error) {
	s, err := calls.Connect(ctx, url, calls.Config{Era: calls.EraLegacy, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	for ; ; n++ {
		select {
		case <-over:
			return n, nil
		default:
		}
		steps := (seed*7 + n*11) % 30
		token := fmt.Sprint("t", n)
		call, err := s.Start(ctx, "tools/call", map[string]any{"name": "count", "Steps": steps, "_meta": map[string]any{"progressToken": token}})
		if err != nil {
			return n, err
		}
		heard := 0
		for m := range call.Messages() {
			var p struct{ Progress int }
			if err := json.Unmarshal(m.Params, &p); err != nil || p.Progress != heard {
				return n, fmt.Errorf("progress %d of %d: %s", heard, steps, m.Params)
			}
			heard++
		}
		var result int
		if err := call.Wait(ctx, &result); err != nil || result != steps || heard != steps {
			return n, fmt.Errorf("%d steps, %d heard, result %d: %w", steps, heard, result, err)
		}
	}
}

// Over real sockets, three processes are replaced one after the other while the package client polls its calls: none is lost, and none is refused.
func TestARollingDeployOverTCP(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	engine, f := cluster.NewMemory(eventstore.MemoryConfig{}), newFront(t)
	var replicas []*replica
	add := func() {
		r := startReplica(t, engine)
		replicas = append(replicas, r)
		f.serves(r.address(), true)
	}
	for range 3 {
		add()
	}
	proxy := httptest.NewServer(f)
	t.Cleanup(proxy.Close)
	over, answers := make(chan struct{}), make(chan error, 100)
	var mu sync.Mutex
	done := 0
	const callers = 12
	for i := range callers {
		go func() {
			n, err := caller(ctx, proxy.URL, i, over)
			mu.Lock()
			done += n
			mu.Unlock()
			answers <- err
		}()
	}
	<-time.After(300 * time.Millisecond) // all have begun
	for i := range 3 {
		add()
		require.NoError(t, replicas[i].stop(ctx, f))
	}
	close(over)
	for range callers {
		require.NoError(t, <-answers)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Logf("%d calls, answers %v", done, f.statuses)
	require.Empty(t, f.faults)
	for status := range f.statuses {
		require.Contains(t, []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent}, status)
	}
	require.Greater(t, done, callers)
	bytes, _ := engine.Usage()
	require.Zero(t, bytes)
	for _, r := range replicas {
		require.Zero(t, r.Stats().Sessions)
	}
}
