package adoptions

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/pipe"
)

// Wire is a real http.Server around processes, over connections in memory, and a client of it.
type Wire struct {
	Client      *http.Client
	Initialized atomic.Int32 // requests of initialize

	listener *pipe.Listener
	mu       sync.Mutex
	conns    []*pipe.Conn // of the client
}

var wireAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}

// NewWire starts the http.Server, in the bubble of t.
func NewWire(t *testing.T, h http.Handler) *Wire {
	t.Helper()
	w := &Wire{listener: pipe.Listen(wireAddr)}
	w.Client = &http.Client{Transport: &http.Transport{DialContext: w.dial}}
	hs := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			if strings.Contains(string(body), `"method":"initialize"`) {
				w.Initialized.Add(1)
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
		}
		h.ServeHTTP(rw, r)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = hs.Serve(w.listener)
	}()
	t.Cleanup(func() {
		w.Client.CloseIdleConnections()
		w.Cut()
		_ = hs.Close()
		<-done
	})
	return w
}

func (w *Wire) dial(context.Context, string, string) (net.Conn, error) {
	client, server := pipe.New(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 1024}, wireAddr)
	w.mu.Lock()
	w.conns = append(w.conns, client)
	w.mu.Unlock()
	return client, w.listener.Deliver(server)
}

// Cut breaks all connections, as the end of a process does.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Reset()
	}
	w.conns = nil
}
