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

// torn are calls whose first response is read up to some byte, and no further. Each tool reports progress three times, lets its client go
// or does not, reports a fourth time and waits; told to go on it reports a fifth time and returns.
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

const tornEvents = 6 // five times progress, and the response

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
			_ = h.CloseStream(0) // the client may be gone already
		}
		say(4)
		x.mu.Lock()
		goOn, returned := x.goOn[p.Name], x.returned[p.Name]
		x.mu.Unlock()
		<-goOn
		say(5)
		close(returned)
		if errors.Is(err, rejoin.ErrNoStream) { // nobody can come back for it
			err = nil
		}
		return p.Name, err
	})
}

// config leaves out what would make the length of a response depend on the time.
func (x *torn) config() rejoin.Config {
	return rejoin.Config{KeepAlive: -1, Logger: kit.QuietLogger(), Policy: rejoin.Policy{Mode: rejoin.SSE}}
}

func (x *torn) open() {
	body, _ := x.do(kit.Request(x.t, http.MethodPost, kit.Initialize))
	_, err := io.ReadAll(body)
	require.NoError(x.t, err)
}

// try opens a call, reads n bytes of its response, or all that there is, and breaks the connection; then it resumes from the last event
// that was whole. It reports whether there were more bytes than n.
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
	if last == "" { // it was given no id: its client cannot come back, and its tool goes on all the same
		once.Do(func() { close(goOn) })
		<-returned
		return len(got) == n
	}
	var all []byte
	for answered := false; !answered && last != ""; { // the tool may let it go once more, where it came back before that
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

// events reads the whole events of a response that begins after from, by the rules of the SSE standard. It returns the last event id and
// the last position.
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

// whatHasCome reads up to len(p) bytes of what can come without time passing.
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

// dechunked is the body of a response of which raw is the beginning.
func dechunked(raw []byte) []byte {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		return nil
	}
	body, _ := io.ReadAll(res.Body)
	return body
}

// every tries every byte, and checks that nothing is left in the end.
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

// A client may lose its connection after any byte. From the last event that it has whole, it gets exactly the rest. Here what was written
// and not read is lost in a buffer, and the server takes it for read.
func TestEveryByteOfABody(t *testing.T) {
	for _, closes := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			x := &torn{t: t, closes: closes}
			c := rejointest.New(t, x.app(), rejointest.Config{Server: x.config()})
			x.do = func(r *http.Request) (io.Reader, func()) {
				ctx, cancel := context.WithCancel(context.Background())
				t.Cleanup(cancel)
				r.Header.Del("Mcp-Session-Id") // the client knows it
				return c.Do(r.WithContext(ctx)).Body, cancel
			}
			x.every(c.Server(), func(raw []byte) []byte { return raw }, 300)
		})
	}
}

// dialled sends requests over connections made by dial, and gives back what comes, to the byte.
func (x *torn) dialled(dial func() net.Conn, abort func(net.Conn)) func(*http.Request) (io.Reader, func()) {
	return func(r *http.Request) (io.Reader, func()) {
		conn := dial()
		x.t.Cleanup(func() { conn.Close() })
		r.URL.Scheme, r.URL.Host, r.Close = "http", "127.0.0.1", true
		require.NoError(x.t, r.Write(conn))
		var body io.Reader = conn
		if x.session == "" { // this one opens it
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

// Here no byte is written that is not read: the server's write fails in the middle, be it in the head or between two chunks.
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

// And here they are sockets, which are reset. It needs real ones, so it runs in real time; it waits for events only.
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
	n := 1 // of a connection that is reset before anything came, the server may not even have read the request
	for x.try(n, readUpTo, dechunked) {
		n += 13
	}
	require.Greater(t, n, 600)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, hs.Shutdown(ctx), "a connection is left")
}
