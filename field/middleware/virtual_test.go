package middleware

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// pipes is a listener for connections in memory, inside a bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// world is a server in virtual time with one client.
type world struct {
	*client
	*gates
	lines  *logRecords
	faults *bytes.Buffer // net/http's error log
	began  time.Time
}

// virtually runs f in virtual time, with HTTP/1.1 and with HTTP/2. writeTimeout is the WriteTimeout of the http.Server.
func virtually(t *testing.T, m mount, writeTimeout time.Duration, f func(t *testing.T, w *world)) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version[:6], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{gates: new(gates), lines: new(logRecords), faults: new(bytes.Buffer)}
				s, err := rejoin.NewServer(w.app(), rejoin.Config{Logger: slog.New(w.lines)})
				require.NoError(t, err)
				p, tr := newPipes(), &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
				tr.DialContext = p.dial
				hs := &http.Server{Handler: m(s), WriteTimeout: writeTimeout, Protocols: new(http.Protocols), ErrorLog: log.New(w.faults, "", 0)}
				for _, protocols := range []*http.Protocols{hs.Protocols, tr.Protocols} {
					protocols.SetHTTP1(version == "HTTP/1.1")
					protocols.SetUnencryptedHTTP2(version != "HTTP/1.1")
				}
				served := make(chan error, 1)
				go func() { served <- hs.Serve(p) }()
				w.client = &client{t: t, http: tr, url: "http://127.0.0.1/mcp", proto: version}
				w.initialize()
				w.began = time.Now()
				defer func() { // also if f fails
					s.Close()
					tr.CloseIdleConnections()
					_ = hs.Close()
				}()
				f(t, w)
				s.Close()
				tr.CloseIdleConnections()
				require.NoError(t, hs.Close())
				require.ErrorIs(t, <-served, http.ErrServerClosed)
				require.Empty(t, w.faults.String(), "net/http has nothing to complain about")
			})
		})
	}
}

// passed returns the virtual time since the test began.
func (w *world) passed() time.Duration { return time.Since(w.began) }

// soon opens a gate after some virtual time.
func (w *world) soon(after time.Duration, keys ...string) {
	time.AfterFunc(after, func() {
		for _, key := range keys {
			w.open(key)
		}
	})
}
