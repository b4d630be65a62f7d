package streams_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/sse"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// torn has calls whose first response is read up to some byte. Each tool reports progress three times, closes its stream or does not, reports a fourth
// time and waits; when the test lets it go on, it reports a fifth time and returns.
type torn struct {
	t       *testing.T
	closes  bool
	session string
	lastID  int
	do      func(*http.Request) (body io.Reader, cut func()) // sends a request over a connection of its own

	mu       sync.Mutex
	goOn     map[string]chan struct{} // by the tool's name
	returned map[string]chan struct{}
}

const tornEvents = 6 // five progress notifications and the response

func (x *torn) app() rejoin.App {
	x.goOn, x.returned = map[string]chan struct{}{}, map[string]chan struct{}{}
	return rejoin.NewApp(rejoin.Info{}, func(ctx context.Context, r *rejoin.Request) (any, error) {
		var p struct{ Name string }
		err := r.Bind(&p)
		h := rejoin.HandleFromContext(ctx)
		say := func(i int) { err = errors.Join(err, h.Notify("notifications/progress", map[string]int{"progress": i})) }
		say(1)
		say(2)
		say(3)
		if x.closes {
			_ = h.CloseStream(0) // the client may have disconnected
		}
		say(4)
		x.mu.Lock()
		goOn, returned := x.goOn[p.Name], x.returned[p.Name]
		x.mu.Unlock()
		<-goOn
		say(5)
		close(returned)
		if errors.Is(err, rejoin.ErrNoStream) { // no client can poll for it
			err = nil
		}
		return p.Name, err
	})
}

// config makes the length of a response independent of the time.
func (x *torn) config() rejoin.Config {
	return rejoin.Config{KeepAlive: -1, Logger: kit.QuietLogger(), Policy: rejoin.Policy{Mode: rejoin.ModeSSE}}
}

func (x *torn) open() {
	body, _ := x.do(kit.Request(x.t, http.MethodPost, kit.Initialize))
	_, err := io.ReadAll(body)
	require.NoError(x.t, err)
}

// try starts a call, reads n bytes of its response, or all of it, and breaks the connection. Then it resumes from the last whole event. It reports whether
// there were more than n bytes.
func (x *torn) try(n int, readUpTo func(io.Reader, []byte) int, decode func([]byte) []byte) (more bool) {
	x.lastID++
	name := strconv.Itoa(1000 + x.lastID)
	goOn, returned := make(chan struct{}), make(chan struct{})
	x.mu.Lock()
	x.goOn[name], x.returned[name] = goOn, returned
	x.mu.Unlock()
	body, cut := x.do(x.request(http.MethodPost, `{"jsonrpc":"2.0","id":`+name+`,"method":"tools/call","params":{"name":"`+name+`"}}`))
	buf := make([]byte, n)
	got := buf[:readUpTo(body, buf)]
	cut()
	what := fmt.Sprintf("cut after %d bytes, %q", n, got)
	last, at, _ := x.events(got, decode, 0, what)
	var once sync.Once
	if n%2 == 0 {
		once.Do(func() { close(goOn) })
		<-returned
	}
	if last == "" { // without an id the client cannot resume, and its tool still goes on
		once.Do(func() { close(goOn) })
		<-returned
		return len(got) == n
	}
	var all []byte
	for answered := false; !answered && last != ""; { // the tool may close the stream again, after the client has polled
		get := x.request(http.MethodGet, "")
		get.Header.Set("Accept", "text/event-stream")
		get.Header.Set("Last-Event-Id", last)
		rest, _ := x.do(get)
		if n%2 != 0 {
			once.Do(func() { close(goOn) })
		}
		var err error
		all, err = io.ReadAll(rest)
		require.NoError(x.t, err, what)
		last, at, answered = x.events(all, decode, at, what)
	}
	require.Equal(x.t, tornEvents, at, "%s: the rest is %q", what, all)
	<-returned
	return len(got) == n
}

func (x *torn) request(method, body string) *http.Request {
	r := kit.Request(x.t, method, body, "Mcp-Protocol-Version", kit.Polling)
	r.Header.Set("Mcp-Session-Id", x.session)
	return r
}

// events parses the whole events of a response, by the rules of the SSE standard. The first one comes after position from. It returns the last event id
// and the last position.
func (x *torn) events(raw []byte, decode func([]byte) []byte, from int, what string) (last string, at int, answered bool) {
	at = from
	r := sse.NewReader(bytes.NewReader(decode(raw)), 1<<20)
	for first := true; ; first = false {
		ev, err := r.Next()
		if err != nil {
			return last, at, answered
		}
		if ev.HasID {
			last = ev.ID
		}
		switch {
		case first:
			require.Regexp(x.t, fmt.Sprintf(`^%d\.[0-9a-z]+$`, from), kit.ShortID(ev.ID), what)
			require.Empty(x.t, ev.Data, what)
		case ev.HasData:
			at++
			require.Equal(x.t, strconv.Itoa(at), kit.ShortID(ev.ID), what)
			require.False(x.t, answered, what)
			if answered = at == tornEvents; answered {
				require.Contains(x.t, string(ev.Data), `"result":`, what)
			} else {
				require.Contains(x.t, string(ev.Data), fmt.Sprintf(`"progress":%d}`, at), what)
			}
		}
	}
}

// whatHasCome reads up to len(p) bytes that can come without time passing.
func whatHasCome(r io.Reader, p []byte) (n int) {
	var mu sync.Mutex
	go func() {
		for at, err := 0, error(nil); err == nil && at < len(p); {
			var m int
			m, err = r.Read(p[at:])
			at += m
			mu.Lock()
			n = at
			mu.Unlock()
		}
	}()
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	return n
}

// dechunked returns the body of a response that begins with raw.
func dechunked(raw []byte) []byte {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		return nil
	}
	body, _ := io.ReadAll(res.Body)
	return body
}

// every tries every byte, and checks that nothing is left at the end.
func (x *torn) every(srv *rejoin.Server, decode func([]byte) []byte, least int) {
	n := 0
	for x.try(n, whatHasCome, decode) {
		n++
	}
	require.Greater(x.t, n, least, "there is a primer, and there are events")
	kit.Elapse(20 * time.Minute)
	synctest.Wait()
	after := srv.Stats()
	require.EqualValues(x.t, 1, after.Streams, "the standalone stream")
	require.Zero(x.t, after.Connections)
	require.Zero(x.t, after.StoredBytes)
}

// A client may lose its connection after any byte. From the last whole event on it gets exactly the rest. In this test, bytes that were written and not
// read are lost in a buffer, and the server believes that they were read.
func TestEveryByteOfABody(t *testing.T) {
	for _, closes := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			x := &torn{t: t, closes: closes}
			c := kit.New(t, x.app(), rejointest.Config{Server: x.config()})
			x.do = func(r *http.Request) (io.Reader, func()) {
				ctx, cancel := context.WithCancel(context.Background())
				t.Cleanup(cancel)
				r.Header.Del("Mcp-Session-Id") // from now on the client knows it
				return c.Do(r.WithContext(ctx)).Body, cancel
			}
			x.every(c.Server(), func(raw []byte) []byte { return raw }, 300)
		})
	}
}

// dialled sends requests over connections of dial, and returns the bytes that come.
func (x *torn) dialled(dial func() net.Conn, abort func(net.Conn)) func(*http.Request) (io.Reader, func()) {
	return func(r *http.Request) (io.Reader, func()) {
		conn := dial()
		x.t.Cleanup(func() { conn.Close() })
		r.URL.Scheme, r.URL.Host, r.Close = "http", "127.0.0.1", true
		require.NoError(x.t, r.Write(conn))
		var body io.Reader = conn
		if x.session == "" { // this request opens it
			res, err := http.ReadResponse(bufio.NewReader(conn), r)
			require.NoError(x.t, err)
			x.session, body = res.Header.Get("Mcp-Session-Id"), res.Body
		}
		return body, func() { abort(conn) }
	}
}

func (x *torn) serve(lis net.Listener) (srv *rejoin.Server, hs *http.Server) {
	cfg := x.config()
	cfg.Store = eventstore.NewMemory(eventstore.MemoryConfig{})
	srv, err := rejoin.NewServer(x.app(), cfg)
	require.NoError(x.t, err)
	hs = &http.Server{Handler: stdadapter.New(srv)}
	served := make(chan error)
	go func() { served <- hs.Serve(lis) }()
	x.t.Cleanup(func() {
		srv.Close()
		hs.Close()
		require.ErrorIs(x.t, <-served, http.ErrServerClosed)
	})
	return srv, hs
}

// In this test every byte that is written is read: the server's write fails in the middle, also in the head or between two chunks.
func TestEveryByteOfAConnectionWithoutABuffer(t *testing.T) {
	for _, closes := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			x := &torn{t: t, closes: closes}
			lis := &kit.Pipes{Conns: make(chan net.Conn), Closed: make(chan struct{})}
			srv, _ := x.serve(lis)
			x.do = x.dialled(lis.Dial, func(c net.Conn) { c.Close() })
			x.open()
			x.every(srv, dechunked, 500)
		})
	}
}

// In this test the connections are sockets, which are reset. It runs in real time, and waits only for events.
func TestSomeBytesOfASocketThatIsReset(t *testing.T) {
	x := &torn{t: t, closes: true}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, hs := x.serve(lis)
	x.do = x.dialled(func() net.Conn {
		conn, err := net.Dial("tcp", lis.Addr().String())
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		return conn
	}, func(c net.Conn) {
		require.NoError(t, c.(*net.TCPConn).SetLinger(0))
		c.Close()
	})
	x.open()
	readUpTo := func(r io.Reader, p []byte) int {
		n, err := io.ReadFull(r, p)
		require.True(t, err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), "%v", err)
		return n
	}
	n := 1 // with 0 bytes the server may not even have read the request
	for x.try(n, readUpTo, dechunked) {
		n += 13
	}
	require.Greater(t, n, 600)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, hs.Shutdown(ctx), "a connection is left")
}
