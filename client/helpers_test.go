package client_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/client"
)

const address = "http://rejoin.test/mcp"

// wire is a network in memory, so that time can be virtual, with one server in it that has all names.
type wire struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}

	mu    sync.Mutex
	down  error           // what a dial fails with
	ends  []net.Conn      // the client's
	bytes func(p []byte)  // told of what the client reads
	hosts map[string]bool // that were dialled
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

func (w *wire) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	w.mu.Lock()
	down := w.down
	w.hosts[addr] = true
	w.mu.Unlock()
	if down != nil {
		return nil, &net.OpError{Op: "dial", Err: down}
	}
	here, there := net.Pipe()
	select {
	case w.conns <- there:
	case <-w.closed:
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, here)
	return &tapped{here, w}, nil
}

// tapped is a connection whose reading can be watched.
type tapped struct {
	net.Conn

	w *wire
}

func (c *tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.w.mu.Lock()
	tell := c.w.bytes
	c.w.mu.Unlock()
	if tell != nil {
		tell(p[:n])
	}
	return n, err
}

// setDown makes every dial fail, or none.
func (w *wire) setDown(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = err
}

// cut breaks every connection that there is, as a proxy would.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.ends {
		_ = c.Close()
	}
	w.ends = nil
}

func network(t *testing.T) (*wire, *http.Client) {
	t.Helper()
	w := &wire{conns: make(chan net.Conn), closed: make(chan struct{}), hosts: map[string]bool{}}
	tr := &http.Transport{DialContext: w.dial}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = w.Close()
	})
	return w, &http.Client{Transport: tr}
}

// serve starts a server and returns what reaches it.
func serve(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	_, hc := serveOn(t, h)
	return hc
}

func serveOn(t *testing.T, h http.Handler) (*wire, *http.Client) {
	t.Helper()
	w, hc := network(t)
	hs := &http.Server{Handler: h}
	go hs.Serve(w)
	t.Cleanup(func() { _ = hs.Close() })
	return w, hc
}

// raw is a server that is no HTTP server: f has each connection for itself, and it is closed when f returns.
func raw(t *testing.T, f func(c net.Conn)) *http.Client {
	t.Helper()
	w, hc := network(t)
	go func() {
		for {
			c, err := w.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	return hc
}

// tool is a server whose requests, initialize and ping aside, are all answered by f: with its result as it is, and {} for nil. It serves sessions,
// which are polled, unless cfg says otherwise.
func tool(t *testing.T, cfg rejoin.Config, f func(ctx context.Context, h *rejoin.Handle) (any, error)) (*wire, *http.Client) {
	t.Helper()
	info := rejoin.Info{Name: "test", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}
	app := rejoin.NewApp(info, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		result, err := f(ctx, rejoin.HandleFromContext(ctx))
		switch {
		case err != nil:
			return nil, err
		case result == nil:
			return struct{}{}, nil
		}
		raw, err := json.Marshal(result)
		return json.RawMessage(raw), err
	})
	cfg.Eras = cmp.Or(cfg.Eras, rejoin.EraLegacy)
	srv, err := rejoin.NewServer(app, cfg)
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	return serveOn(t, stdadapter.New(srv))
}

func connect(t *testing.T, hc *http.Client, cfg client.Config) *client.Session {
	t.Helper()
	cfg.HTTP = hc
	s, err := client.Connect(t.Context(), address, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

func start(t *testing.T, s *client.Session) *client.Call {
	t.Helper()
	call, err := s.Start(t.Context(), "tools/call", map[string]any{"name": "x"})
	require.NoError(t, err)
	return call
}

// bubble runs a test in virtual time. Nothing may be left running when it ends: synctest fails then.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// goroutines are the stacks of this bubble's goroutines, but the one that asks, once all are blocked.
func goroutines() []string {
	synctest.Wait()
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	_, rest, _ := strings.Cut(all[0], "synctest bubble ")
	number, _, _ := strings.Cut(rest, "]")
	return slices.DeleteFunc(all[1:], func(stack string) bool {
		head, _, _ := strings.Cut(stack, "\n")
		return number == "" || !strings.Contains(head, "synctest bubble "+number+"]")
	})
}
