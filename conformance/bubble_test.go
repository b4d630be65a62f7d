package conformance_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// booth is a server over in-memory pipes inside a bubble, and a client that knows nothing of MCP but the headers. In a bubble nothing is slow,
// and waiting for ever is detected.
type booth struct {
	*testing.T
	handler http.Handler
	pipes   *pipes
	http    *http.Client
	path    string
	header  http.Header // of each request
}

// pipes is a net.Listener whose connections buffer nothing.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
	close sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.close.Do(func() { close(p.over) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- tcp{server, p.Addr()}:
		return client, nil
	case <-p.over:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tcp is a pipe with the address of a socket: net/http tells handlers their address.
type tcp struct {
	net.Conn
	addr net.Addr
}

func (c tcp) LocalAddr() net.Addr  { return c.addr }
func (c tcp) RemoteAddr() net.Addr { return c.addr }

// open starts a server in the bubble of t.
func open(t *testing.T, h http.Handler) *booth {
	b := &booth{T: t, handler: h, pipes: &pipes{conns: make(chan net.Conn), over: make(chan struct{})}}
	server := &http.Server{Handler: h}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(b.pipes) }()
	t.Cleanup(func() {
		_ = server.Close()
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	b.http = &http.Client{Transport: b.transport()}
	return b
}

// transport returns a transport that ends with the test.
func (b *booth) transport() *http.Transport {
	t := &http.Transport{DialContext: b.pipes.dial}
	b.Cleanup(t.CloseIdleConnections)
	return t
}

// flight is one request and the part of its response that has come so far.
type flight struct {
	cut    context.CancelFunc // breaks the connection
	read   func()             // lets the body be read
	headed chan struct{}      // closed when the head has come
	ended  chan struct{}
	mu     sync.Mutex
	status int
	header http.Header
	body   []byte
	err    error // the error of reading; io.EOF at a clean end
}

// fly sends a request, and returns when all goroutines of the bubble are blocked.
func (b *booth) fly(method, body, cursor string) *flight {
	f := b.depart(method, body, cursor)
	f.read()
	synctest.Wait()
	return f
}

// trip sends a request and returns when its response has ended. Unlike fly, several goroutines may call it at once.
func (b *booth) trip(method, body, cursor string) *flight {
	f := b.depart(method, body, cursor)
	f.read()
	<-f.ended
	return f
}

// stall sends a request and reads only the head of its response.
func (b *booth) stall(body string) *flight {
	f := b.depart(http.MethodPost, body, "")
	<-f.headed
	return f
}

func (b *booth) depart(method, body, cursor string) *flight {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	gate := make(chan struct{})
	f := &flight{cut: cancel, read: sync.OnceFunc(func() { close(gate) }), headed: make(chan struct{}), ended: make(chan struct{})}
	r := b.request(ctx, method, body)
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	b.Cleanup(func() {
		cancel()
		f.read()
		<-f.ended
	})
	go func() {
		defer close(f.ended)
		res, err := b.http.Do(r)
		if err != nil {
			f.fail(err)
			return
		}
		defer res.Body.Close()
		f.mu.Lock()
		f.status, f.header = res.StatusCode, res.Header
		f.mu.Unlock()
		close(f.headed)
		<-gate
		f.fail(f.receive(res.Body))
	}()
	return f
}

func (b *booth) request(ctx context.Context, method, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+b.path, strings.NewReader(body))
	r.RequestURI = ""
	r.Header = b.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

func (f *flight) receive(body io.Reader) error {
	p := make([]byte, 4096)
	for {
		n, err := body.Read(p)
		f.mu.Lock()
		f.body = append(f.body, p[:n]...)
		f.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (f *flight) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *flight) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%d %v %v: %s", f.status, f.header, f.err, f.body)
}

// code is the status; 0: no response has come.
func (f *flight) code() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// events are the events so far. Unlike rejoin, the SDKs also write other event names, and mcp-go ends lines with \r\n.
func (f *flight) events() []event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return events(bytes.ReplaceAll(f.body, []byte("\r\n"), []byte("\n")))
}

// cursor is the id of the last event that had one.
func (f *flight) cursor() (id string) {
	for _, e := range f.events() {
		if e.id != "" && e.isComplete {
			id = e.id
		}
	}
	return id
}

// told returns the messages of the notifications so far, in order.
func (f *flight) told() (texts []string) {
	for _, e := range f.events() {
		if m := noticeOf(e.data); m.Method != "" {
			texts = append(texts, m.Params.Message)
		}
	}
	return texts
}

// answered reports whether the response has come.
func (f *flight) answered() bool {
	f.mu.Lock()
	plain := messageOf(string(f.body)).isResponse()
	f.mu.Unlock()
	return plain || slices.ContainsFunc(f.events(), func(e event) bool { return messageOf(e.data).isResponse() })
}

// text is the text of the result.
func (f *flight) text() string {
	f.mu.Lock()
	all := []event{{data: string(f.body)}}
	f.mu.Unlock()
	for _, e := range append(all, f.events()...) {
		if m := noticeOf(e.data); len(m.Result.Content) == 1 {
			return m.Result.Content[0].Text
		}
	}
	return "none"
}

// connect opens a session.
func (b *booth) connect() {
	b.Helper()
	f := b.fly(http.MethodPost, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"plain","version":"1"}}}`, "")
	require.Equal(b, http.StatusOK, f.code(), "%v", f)
	b.header.Set("Mcp-Session-Id", f.header.Get("Mcp-Session-Id"))
	b.header.Set("Mcp-Protocol-Version", "2025-11-25")
	require.NotEmpty(b, b.header.Get("Mcp-Session-Id"))
	f = b.fly(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "")
	require.Equal(b, http.StatusAccepted, f.code(), "%v", f)
}

// reconnect opens another session for the user of the first one, at the first path.
func (b *booth) reconnect() {
	b.Helper()
	b.path, b.header = "/mcp", http.Header{"X-User": {"Bob"}}
	b.connect()
}

// call calls the only tool, with n as the request's id and as its progress token.
func (b *booth) call(n int) *flight { return b.fly(http.MethodPost, callOf(n), "") }

// ping sends a ping and requires its answer.
func (b *booth) ping() {
	res, err := b.http.Do(b.request(context.WithoutCancel(b.Context()), http.MethodPost, `{"jsonrpc":"2.0","id":"p","method":"ping"}`))
	require.NoError(b, err)
	require.NoError(b, res.Body.Close())
	require.Equal(b, http.StatusOK, res.StatusCode)
}

func callOf(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"work","arguments":{},"_meta":{"progressToken":%d}}}`, n, n)
}

// listen requests the standalone stream, or resumes a stream.
func (b *booth) listen(cursor string) *flight { return b.fly(http.MethodGet, "", cursor) }

func (b *booth) end() *flight { return b.fly(http.MethodDelete, "", "") }

// elapse lets time pass.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
