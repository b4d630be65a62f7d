package conformance_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// proxy forwards TCP connections to a server. It resets the first connection with a call, on both sides, as soon as the response contains a
// text.
type proxy struct {
	net.Listener
	server string
	text   string
	once   sync.Once
	cut    chan struct{} // closed after the reset
}

func newProxy(t *testing.T, server, text string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: l, server: server, text: text, cut: make(chan struct{})}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.forward(c.(*net.TCPConn))
		}
	}()
	return p
}

func (p *proxy) forward(near *net.TCPConn) {
	defer near.Close()
	c, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	far := c.(*net.TCPConn)
	defer far.Close()
	var called atomic.Bool
	go func() { // from the client to the server
		_, _ = io.Copy(writer(func(b []byte) (int, error) {
			if bytes.Contains(b, []byte(`"tools/call"`)) {
				called.Store(true)
			}
			return far.Write(b)
		}), near)
		_ = far.CloseWrite()
	}()
	var seen []byte
	_, _ = io.Copy(writer(func(b []byte) (int, error) {
		n, err := near.Write(b)
		if seen = append(seen, b...); !called.Load() || !bytes.Contains(seen, []byte(p.text)) {
			return n, err
		}
		p.once.Do(func() {
			for _, conn := range []*net.TCPConn{near, far} {
				_ = conn.SetLinger(0) // a reset, not a clean end
				_ = conn.Close()
			}
			close(p.cut)
		})
		return n, err
	}), far)
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// await waits until ch is closed, or the test is over.
func await(t *testing.T, ch <-chan struct{}) {
	select {
	case <-ch:
	case <-t.Context().Done():
	}
}

// A proxy resets the connection in the middle of a call, on real sockets. If the server gives event ids, the call goes on and ends with its
// result; otherwise it may have run. In both cases it is sent once.
func TestClientBehindAProxyThatResets(t *testing.T) {
	for _, h := range houses() {
		t.Run(strings.ReplaceAll(h.name, " ", "_"), func(t *testing.T) {
			var p *proxy
			var calls atomic.Int64
			begun := make(chan struct{})
			handler := h.mount(t, func(d desk) string {
				calls.Add(1)
				_ = d.progress("one")
				await(t, begun) // a reset discards what was not read
				_ = d.progress("two")
				_ = d.progress("three")
				await(t, p.cut)
				_ = d.progress("four")
				return "done"
			})
			hs := httptest.NewServer(handler)
			t.Cleanup(hs.Close)
			p = newProxy(t, hs.Listener.Addr().String(), `"three"`)
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := client.Connect(ctx, "http://"+p.Addr().String()+"/mcp", client.Config{
				HTTP: &http.Client{Transport: transport}, Backoff: 20 * time.Millisecond, Attempts: 1000, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.Close(context.WithoutCancel(ctx)) }) // some servers end sessions themselves
			c, err := s.Start(ctx, "tools/call", map[string]any{
				"name": "work", "arguments": map[string]any{}, "_meta": map[string]any{"progressToken": "t"},
			})
			require.NoError(t, err)
			var told []string
			for m := range c.Messages() {
				for _, message := range []string{"one", "two", "three", "four"} {
					if bytes.Contains(m.Params, []byte(`"`+message+`"`)) {
						if told = append(told, message); len(told) == 1 {
							close(begun)
						}
					}
				}
			}
			var result struct{ Content []struct{ Text string } }
			err = c.Wait(ctx, &result)
			require.EqualValues(t, 1, calls.Load(), "it was sent once")
			if h.kind == forgets {
				require.ErrorIs(t, err, client.ErrMayHaveRun)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "done", result.Content[0].Text)
			if h.kind == repeats { // what was sent while the client was away may be lost
				told = slices.DeleteFunc(told, func(m string) bool { return m == "four" })
				require.Equal(t, []string{"one", "two", "three"}, told)
				return
			}
			require.Equal(t, []string{"one", "two", "three", "four"}, told)
		})
	}
}
