package hop

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what must come. It is far beyond what that takes.
const patience = 30 * time.Second

// owner is a process that answers as the handler does, with its mark.
func owner(t *testing.T, h http.HandlerFunc) Owner {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(Mark, "I")
		h(w, r)
	}))
	t.Cleanup(server.Close)
	return Owner{Self: server.URL, Incarnation: "I"}
}

func forwarder(t *testing.T, transport http.RoundTripper) *Forwarder {
	t.Helper()
	f := New(Config{Self: "http://self", Lease: 10 * time.Second, Transport: transport, Gone: func(Owner) bool { return false }})
	t.Cleanup(f.CloseIdle)
	return f
}

func post(t *testing.T, body []byte) *Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/mcp", nil)
	require.NoError(t, err)
	r.Header.Set("Idempotency-Key", "k") // net/http would send such a request again
	return &Request{Request: r, Sent: body}
}

func whole(t *testing.T, f *Forwarder, o Owner, q *Request) string {
	t.Helper()
	a, err := f.Send(o, q)
	require.NoError(t, err)
	defer a.Close()
	body, err := a.Whole()
	require.NoError(t, err)
	return string(body)
}

// A request that may have arrived is never sent twice, though the connection was used before and the client says that it may be.
func TestWhatMayHaveArrivedIsSentOnce(t *testing.T) {
	var came atomic.Int32
	o := owner(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("X-Break") != "" {
			came.Add(1)
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("ok"))
	})
	f := forwarder(t, nil)
	for range 20 {
		require.Equal(t, "ok", whole(t, f, o, post(t, []byte("{}"))))
		q := post(t, []byte("{}"))
		q.Header.Set("X-Break", "1")
		_, err := f.Send(o, q)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrUnreached)
	}
	require.EqualValues(t, 20, came.Load())
	require.Zero(t, f.Waiting())
}

// Only what tells so proves that a request has not arrived.
func TestWhatIsUnreached(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	unused := Owner{Self: "http://" + free.Addr().String(), Incarnation: "I"}
	require.NoError(t, free.Close())
	_, err = forwarder(t, nil).Send(unused, post(t, nil))
	require.ErrorIs(t, err, ErrUnreached)

	for _, tt := range []struct {
		err       error
		unreached bool
	}{
		{errors.New("something"), false},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, false},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
	} {
		_, err := forwarder(t, failing{tt.err}).Send(unused, post(t, nil))
		require.Equal(t, tt.unreached, errors.Is(err, ErrUnreached), "%v", tt.err)
	}
}

// failing is the Transport of a user, which does not tell how far a request came.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// A process has ended, and one of its connections was still idle here. net/http finds that out before it writes, and dials.
func TestAnIdleConnectionOfAProcessThatHasEnded(t *testing.T) {
	f := forwarder(t, transport(func(r *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(r.Context())
		trace.GetConn("")
		trace.GotConn(httptrace.GotConnInfo{Reused: true, WasIdle: true})
		trace.GetConn("")
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}))
	_, err := f.Send(Owner{Self: "http://x", Incarnation: "I"}, post(t, nil))
	require.ErrorIs(t, err, ErrUnreached)
}

// After an attempt has failed, the others do not try at once.
func TestAProcessThatCannotBeReachedIsGivenARest(t *testing.T) {
	tried := &counting{failing: failing{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}}
	f := forwarder(t, tried)
	for range 100 {
		_, err := f.Send(Owner{"http://x", "I"}, post(t, nil))
		require.ErrorIs(t, err, ErrUnreached)
	}
	require.Less(t, tried.n.Load(), int32(50))
}

type counting struct {
	failing
	n atomic.Int32
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.failing.RoundTrip(r)
}

// The body of a request is not kept while its answer lasts.
func TestTheBodyIsLetGoWhenItWasSent(t *testing.T) {
	goOn := make(chan struct{})
	o := owner(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-goOn
	})
	defer close(goOn)
	freed := make(chan struct{})
	a := func() *Answer {
		body := []byte(strings.Repeat("x", 1<<20))
		runtime.AddCleanup(&body[0], func(struct{}) { close(freed) }, struct{}{})
		a, err := forwarder(t, nil).Send(o, post(t, body))
		require.NoError(t, err)
		return a
	}()
	defer a.Close()
	require.True(t, a.IsStream())
	for end := time.After(patience); ; {
		runtime.GC()
		select {
		case <-freed:
			return
		case <-time.After(10 * time.Millisecond):
		case <-end:
			t.Fatal("the body is still there")
		}
	}
}

// Nothing of a process is kept when nothing is asked of it.
func TestPeersAreForgotten(t *testing.T) {
	o := owner(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	f := New(Config{Self: "http://self", Lease: 50 * time.Millisecond, Gone: func(Owner) bool { return false }})
	t.Cleanup(f.CloseIdle)
	require.Equal(t, "ok", whole(t, f, o, post(t, nil)))
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.peers) == 0
	}, patience, time.Millisecond)
	require.Equal(t, "ok", whole(t, f, o, post(t, nil)))
}

// Header and body leave in one write: a second one is a tenth of what a forwarded call costs.
func TestARequestIsOneWrite(t *testing.T) {
	o := owner(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write([]byte("ok"))
	})
	var writes atomic.Int32
	transport := newTransport(time.Second)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &countedWrites{conn, &writes}, err
	}
	t.Cleanup(transport.CloseIdleConnections)
	f := forwarder(t, transport)
	for range 10 {
		require.Equal(t, "ok", whole(t, f, o, post(t, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))))
	}
	require.EqualValues(t, 10, writes.Load())
}

type countedWrites struct {
	net.Conn
	n *atomic.Int32
}

func (c *countedWrites) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}
