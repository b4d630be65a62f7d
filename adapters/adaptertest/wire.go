package adaptertest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

const (
	version = "2025-11-25" // clients of this version poll

	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{},"clientInfo":{"name":"adaptertest","version":"1"}}}`
	ping = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
	pong = `{"jsonrpc":"2.0","id":"p","result":{}}`

	sessionHeader = "Mcp-Session-Id"
	cursorHeader  = "Last-Event-ID"
	allowed       = "GET, POST, DELETE"
)

// elapse lets virtual time pass.
func elapse(d time.Duration) { <-time.After(d) }

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   string
}

// request is a request as a client of the protocol sends it. A client can send it, and a handler can serve it.
func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://rejoin.test"+path, strings.NewReader(body))
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// requestWithoutSession is a request without a session.
func requestWithoutSession(method, path, body string) *http.Request {
	r := request(method, path, body)
	r.Header[sessionHeader] = nil
	return r
}

// patience is how long, in virtual time, an answer that ends may take.
const patience = time.Minute

// send sends a request over a connection of its own and reads the answer to its end.
func (e *exam) send(c *rejointest.Client, r *http.Request) answer {
	e.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	res := c.Do(r.WithContext(ctx))
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		e.Errorf("%s %s: the answer broke off after %q: %v", r.Method, r.URL.Path, body, err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

// message is the part of a JSON-RPC message that the exam checks.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Progress int
		Message  string
	}
	Result json.RawMessage
	Error  *struct{ Code int }
}

func parse(raw []byte) (m message, ok bool) {
	return m, json.Unmarshal(raw, &m) == nil
}

// stream is the content of an SSE body.
type stream struct {
	cursor   string
	retry    time.Duration
	messages []message
}

// grammar is all that a stream may hold: a primer, events, comments, and a final retry.
var grammar = regexp.MustCompile(`^(id: \S+\nretry: \d+\ndata: \n\n)?((event: message\nid: \S+\ndata: \{.*\}\n\n)|(: \n\n))*(retry: \d+\n\n)?$`)

func parseStream(body string) (s stream, ok bool) {
	if !grammar.MatchString(body) {
		return s, false
	}
	events := sse.NewReader(strings.NewReader(body), len(body)+1)
	for {
		ev, err := events.Next()
		if err != nil {
			return s, true // the end: the grammar has checked everything
		}
		if ev.HasID {
			s.cursor = ev.ID
		}
		if ev.Retry >= 0 {
			s.retry = ev.Retry
		}
		if len(ev.Data) > 0 {
			m, ok := parse(ev.Data)
			if !ok {
				return s, false
			}
			s.messages = append(s.messages, m)
		}
	}
}

// responses returns the head and the body of each response that a call got.
func responses(call *rejointest.Call) (all []answer) {
	for part := range strings.SplitSeq(call.Wire(), "HTTP/1.1 ") {
		head, body, ok := strings.Cut(part, "\r\n\r\n")
		if !ok {
			continue
		}
		a := answer{header: http.Header{}, body: body}
		lines := strings.Split(head, "\r\n")
		if lines[0] == "200 OK" {
			a.status = http.StatusOK
		}
		for _, line := range lines[1:] {
			name, value, _ := strings.Cut(line, ": ")
			a.header.Add(name, value)
		}
		all = append(all, a)
	}
	return all
}

// wantStream checks the head and the body of a stream, up to the last byte that was received.
func (e *exam) wantStream(a answer, what string) {
	e.Helper()
	if a.status != http.StatusOK {
		e.Errorf("%s: answered with another status than 200: %+v", what, a)
		return
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
		"Content-Encoding": "", "Location": "", "Allow": "",
	} {
		if got := strings.Join(a.header.Values(name), "; "); got != want {
			e.Errorf("%s: the header %s of the stream is %q, not %q", what, name, got, want)
		}
	}
	// A stream that ends at once has a length.
	if n := a.header.Get("Content-Length"); n != "" && n != strconv.Itoa(len(a.body)) {
		e.Errorf("%s: the stream has %d bytes, and its Content-Length is %s", what, len(a.body), n)
	}
	if _, ok := parseStream(a.body); !ok {
		e.Errorf("%s: the stream holds something that the server did not write: %q", what, a.body)
	}
}
