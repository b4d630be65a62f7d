package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

var errCut = errors.New("connection reset by the test")

// scissors is a network that breaks a connection in the middle of a response, once each time that a test asks for it.
type scissors struct {
	mu    sync.Mutex
	on    string // a request must contain it for its connection to be cut; "": none is
	limit int    // so many bytes of the response come through; negative: everything up to text, and what comes with it
	text  string
	conn  *snipped // the one that is being cut
	seen  []byte   // the part of the response that came through
	cut   bool
	next  func()        // called after a cut, if not nil
	late  time.Duration // after this time the server learns of a cut
	last  map[string]*snipped
}

func (s *scissors) dial(
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &snipped{Conn: c, s: s}, nil
	}
}

// cutAt cuts the response to the next request that contains on, after limit bytes.
func (s *scissors) cutAt(on string, limit int) { s.arm(on, limit, "") }

// cutAfter cuts it after the piece that has a text.
func (s *scissors) cutAfter(on, text string) { s.arm(on, -1, text) }

func (s *scissors) arm(on string, limit int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.limit, s.text, s.conn, s.seen, s.cut = on, limit, text, nil, nil, false
}

// cutNow breaks the connection of the last request that contained method.
func (s *scissors) cutNow(method string) {
	s.mu.Lock()
	c := s.last[method]
	s.mu.Unlock()
	_ = c.Close()
}

// isCut reports whether the cut has happened, and what came through before. After that it does not happen any more.
func (s *scissors) isCut() (bool, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.conn = "", nil
	return s.cut, s.seen
}

// pass returns how many of the bytes come through that a connection has received.
func (s *scissors) pass(c *snipped, p []byte) (n int, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return len(p), false
	}
	before := len(s.seen)
	s.seen = append(s.seen, p...)
	if s.limit < 0 && bytes.Contains(s.seen, []byte(s.text)) {
		s.limit = len(s.seen)
	}
	if s.limit < 0 || len(s.seen) < s.limit {
		return len(p), false
	}
	s.seen = s.seen[:s.limit]
	s.on, s.conn, s.cut = "", nil, true
	return s.limit - before, true
}

// snipped is a connection of a client that can be cut.
type snipped struct {
	net.Conn
	s   *scissors
	cut atomic.Bool
}

// Close closes the connection. If it was cut, the server learns of that later.
func (c *snipped) Close() error {
	if c.cut.Load() {
		return nil
	}
	return c.Conn.Close()
}

func (c *snipped) Write(p []byte) (int, error) {
	c.s.mu.Lock()
	method, _, _ := strings.Cut(string(p), "/")
	if c.s.last == nil {
		c.s.last = map[string]*snipped{}
	}
	c.s.last[method] = c
	if c.s.on != "" && c.s.conn == nil && bytes.Contains(p, []byte(c.s.on)) {
		c.s.conn = c
	}
	c.s.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *snipped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	n, cut := c.s.pass(c, p[:n])
	if !cut {
		return n, err
	}
	c.cut.Store(true)
	go func() { _, _ = io.Copy(io.Discard, c.Conn) }() // for a while the network still takes what the server sends
	time.AfterFunc(c.s.late, func() { _ = c.Conn.Close() })
	if c.s.next != nil {
		next := c.s.next
		c.s.next = nil
		next()
	}
	return n, errCut
}

// The connection of a call breaks at each byte of the response's body, and at some of its head. With an event id the call goes on, and each
// message comes once. Without an id it is unknown whether the call ran, and it is not sent again.
func TestClientIsCutAtEachByte(t *testing.T) {
	for _, s := range houses() {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := enter(t, s, slowly, client.Config{})
				for n, calls := 0, int64(1); ; n, calls = n+1, calls+1 {
					v.cutAt(`"tools/call"`, n)
					told, text, err := v.call()
					cut, seen := v.isCut()
					elapse(time.Minute) // by then the connections that the client gave up have ended at the server
					require.Equal(t, calls, v.calls.Load(), "byte %d: sent once", n)
					where := fmt.Sprintf("byte %d, after %q: %v", n, seen[max(0, len(seen)-40):], err)
					if !cut {
						requireDone(t, primes, told, text, err, where)
						require.Greater(t, n, 500, "the answer was cut somewhere")
						return
					}
					if hasID(seen) || isAnswered(seen) {
						requireDone(t, s.kind, told, text, err, where)
						continue
					}
					require.ErrorIs(t, err, client.ErrMayHaveRun, where)
					if !bytes.Contains(seen, []byte("\r\n\r\n")) {
						n += 10
					}
				}
			})
		})
	}
}

// The same for the connection of the first poll, and for the one after that.
func TestClientIsCutAgain(t *testing.T) {
	for _, s := range houses() {
		if s.kind == forgets {
			continue // the client does not poll
		}
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := enter(t, s, slowly, client.Config{})
				for n, calls := 0, int64(1); ; n, calls = n+5, calls+1 {
					v.next = func() { v.cutAt("Last-Event-Id: ", n) }
					v.cutAfter(`"tools/call"`, `"one"`)
					told, text, err := v.call()
					cut, seen := v.isCut()
					elapse(time.Minute)
					require.Equal(t, calls, v.calls.Load(), "byte %d: sent once", n)
					requireDone(t, s.kind, told, text, err, "byte %d, after %q", n, seen[max(0, len(seen)-40):])
					if !cut {
						require.Greater(t, n, 300, "the answer was cut somewhere")
						return
					}
				}
			})
		})
	}
}

// A server may not notice for a while that a connection was cut, and refuse another one until then (go-sdk: 409).
func TestClientIsCutAndTheServerDoesNotKnow(t *testing.T) {
	for _, s := range houses() {
		if s.kind == forgets {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := enter(t, s, slowly, client.Config{})
				v.late = 30 * time.Second
				v.cutAfter(`"tools/call"`, `"one"`)
				told, text, err := v.call()
				requireDone(t, s.kind, told, text, err)
				require.EqualValues(t, 1, v.calls.Load(), "sent once")
			})
		})
	}
}

// slowly is a tool that reports progress twice, and takes its time.
func slowly(d desk) string {
	for _, message := range []string{"one", "two"} {
		_ = d.progress(message)
		<-time.After(2 * time.Second)
	}
	return "done"
}

// requireDone checks what came of a call whose connection was cut.
func requireDone(t *testing.T, k kind, told []string, text string, err error, where ...any) {
	t.Helper()
	require.NoError(t, err, where...)
	require.Equal(t, "done", text, where...)
	if want := []string{"one", "two"}; k != repeats || len(told) == 2 {
		require.Equal(t, want, told, where...)
	} else {
		require.Equal(t, want[:len(told)], told, where...) // such servers lose what their tools send while the client is disconnected
	}
}

// whole returns the events that have come whole.
func whole(seen []byte) []event {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(seen)), nil)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body) // up to the cut
	body = bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
	end := bytes.LastIndex(body, []byte("\n\n"))
	if end < 0 {
		return nil
	}
	return events(body[:end+2])
}

// hasID reports whether an event with an id has come whole.
func hasID(seen []byte) bool {
	return slices.ContainsFunc(whole(seen), func(e event) bool { return e.id != "" })
}

// isAnswered reports whether the response of the call has come whole.
func isAnswered(seen []byte) bool {
	return slices.ContainsFunc(whole(seen), func(e event) bool { return messageOf(e.data).isResponse() })
}
