package middleware

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// patience is how long a test waits for an event. It is far beyond what that takes.
const patience = 30 * time.Second

// protocol is a version of HTTP.
type protocol struct {
	name  string
	proto string // in its responses
	tls   bool
	dial  func(*httptest.Server) http.RoundTripper
}

// protocols are the versions of HTTP that clients use.
var protocols = []protocol{
	{"HTTP/1.0", "HTTP/1.0", false, func(*httptest.Server) http.RoundTripper { return oldest{} }},
	{"HTTP/1.1", "HTTP/1.1", false, func(*httptest.Server) http.RoundTripper {
		return &http.Transport{DisableCompression: true} // otherwise it would ask for gzip itself, and hide that
	}},
	{"h2c", "HTTP/2.0", false, func(*httptest.Server) http.RoundTripper {
		t := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
		t.Protocols.SetUnencryptedHTTP2(true)
		return t
	}},
	{"HTTP/2", "HTTP/2.0", true, func(s *httptest.Server) http.RoundTripper {
		t := s.Client().Transport.(*http.Transport).Clone()
		t.DisableCompression = true
		return t
	}},
}

// listen serves a handler on a loopback socket. A goroutine of closing closes the server: net/http waits a while for a connection whose body
// it has not read.
func listen(t *testing.T, h http.Handler, secure bool, closing *sync.WaitGroup) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	start(t, s, secure, closing)
	return s
}

func start(t *testing.T, s *httptest.Server, secure bool, closing *sync.WaitGroup) {
	if secure {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	}
	t.Cleanup(func() { closing.Go(s.Close) })
}

// oldest speaks HTTP/1.0: each request has a connection of its own, and the response ends with it.
type oldest struct{}

func (oldest) RoundTrip(r *http.Request) (*http.Response, error) {
	conn, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.URL.Host)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(r.Context(), func() { _ = conn.Close() })
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.0\r\nHost: %s\r\nContent-Length: %d\r\n", r.Method, r.URL.RequestURI(), r.URL.Host, len(body))
	_ = r.Header.Write(&b)
	b.WriteString("\r\n")
	b.Write(body)
	if _, err := conn.Write(b.Bytes()); err != nil {
		return nil, err
	}
	return http.ReadResponse(bufio.NewReader(conn), r)
}

// client is a client with a session, or without one yet.
type client struct {
	t       *testing.T
	http    http.RoundTripper
	url     string
	proto   string
	origin  string
	gzip    bool
	session string
	id      int
}

// answer is a response, with its decoded body.
type answer struct {
	t *testing.T
	*http.Response
	zipped bool
	body   *bufio.Reader
	last   string // the last event id
	cut    context.CancelFunc
}

// send sends a request. A body of unknown length is sent in chunks.
func (c *client) send(method string, body io.Reader, header ...string) *answer {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, c.url, body)
	require.NoError(c.t, err)
	switch method {
	case http.MethodPost:
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	case http.MethodGet:
		r.Header.Set("Accept", "text/event-stream")
	}
	if c.gzip {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	if c.origin != "" {
		r.Header.Set("Origin", c.origin)
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.RoundTrip(r)
	require.NoError(c.t, err, method)
	require.Equal(c.t, c.proto, res.Proto)
	if c.origin != "" && method != http.MethodOptions {
		require.Equal(c.t, []string{c.origin}, res.Header.Values("Access-Control-Allow-Origin"), "on every answer, and once")
	}
	a := &answer{t: c.t, Response: res, cut: cancel}
	a.zipped = res.Header.Get("Content-Encoding") == "gzip"
	return a
}

func (c *client) post(body string, header ...string) *answer {
	c.t.Helper()
	return c.send(http.MethodPost, strings.NewReader(body), header...)
}

// initialize opens the session.
func (c *client) initialize() {
	c.t.Helper()
	a := c.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mw","version":"1"}}}`)
	require.Equal(c.t, http.StatusOK, a.StatusCode)
	require.Contains(c.t, a.whole(), `"protocolVersion":"2025-11-25"`)
	c.session = a.Header.Get("Mcp-Session-Id")
	require.NotEmpty(c.t, c.session)
	require.Equal(c.t, http.StatusAccepted, c.status(c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)))
}

// status requires that an answer has no body, and returns its status.
func (c *client) status(a *answer) int {
	c.t.Helper()
	require.Empty(c.t, a.whole())
	return a.StatusCode
}

// call calls a tool, with a progress token.
func (c *client) call(tool, key string) *answer {
	c.t.Helper()
	c.id++
	return c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"key":%q},"_meta":{"progressToken":%d}}}`,
		c.id, tool, key, c.id))
}

// poll resumes a stream after cursor.
func (c *client) poll(cursor string) *answer {
	c.t.Helper()
	return c.send(http.MethodGet, nil, "Last-Event-ID", cursor)
}

func (a *answer) reader() *bufio.Reader {
	if a.body == nil {
		var src io.Reader = a.Body
		if a.zipped {
			raw := bufio.NewReader(src)
			src = raw
			if _, err := raw.Peek(1); err == nil { // an empty body is not compressed, although its header says so
				z, err := gzip.NewReader(raw)
				require.NoError(a.t, err)
				src = z
			}
		}
		a.body = bufio.NewReader(src)
	}
	return a.body
}

// whole reads the rest of a body.
func (a *answer) whole() string {
	a.t.Helper()
	all, err := io.ReadAll(a.reader())
	require.NoError(a.t, err)
	return strings.TrimSpace(string(all))
}

func (a *answer) streams() bool { return a.Header.Get("Content-Type") == "text/event-stream" }

// next reads one event and returns what it is: primer, retry, or the message as shape describes it; "end" at the clean end.
func (a *answer) next() string {
	a.t.Helper()
	var data string
	var seen, retry bool
	for {
		line, err := a.reader().ReadString('\n')
		if err == io.EOF && line == "" && !seen && !retry {
			return "end"
		}
		require.NoError(a.t, err)
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			a.last = value
		case "data":
			data, seen = value, true
		case "retry":
			retry = true
		case "":
			switch {
			case seen && data == "":
				return "primer"
			case seen:
				return shape(a.t, data)
			case retry:
				return "retry"
			}
		}
	}
}

// rest calls next up to the end, and joins what it returns.
func (a *answer) rest() string {
	a.t.Helper()
	var all []string
	for {
		event := a.next()
		all = append(all, event)
		if event == "end" {
			return strings.Join(all, " ")
		}
	}
}

// shape describes a message: the value of a progress, the method of another notification, a result, or an error.
func shape(t *testing.T, data string) string {
	t.Helper()
	var m struct {
		Method string
		Params struct{ Progress int }
		Result json.RawMessage
		Error  *rejoin.Error
	}
	require.NoError(t, json.Unmarshal([]byte(data), &m), data)
	switch {
	case m.Method == "notifications/progress":
		return fmt.Sprint(m.Params.Progress)
	case m.Method != "":
		return m.Method
	case m.Error != nil:
		return fmt.Sprintf("error(%d)", m.Error.Code)
	}
	var text struct{ Content []struct{ Text string } }
	if json.Unmarshal(m.Result, &text) == nil && len(text.Content) == 1 {
		return strconv.Quote(text.Content[0].Text)
	}
	return string(m.Result)
}
