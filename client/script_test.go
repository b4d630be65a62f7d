package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin/client"
)

// hit is a request that reached a scripted server.
type hit struct {
	verb, host, session, version, cursor string

	method string // of the message
	id     string
	body   string
	at     time.Duration // since the server began
	header http.Header
}

// script is a server that does what a test wants. It initializes sessions, accepts what needs no answer, and writes down what comes. It speaks
// the legacy era only: it refuses server/discover as such servers do, without writing it down.
type script struct {
	// post answers requests other than initialize; get, GETs. n counts them, from 1. initialize replaces the usual answer, and other,
	// those to notifications, answers and DELETE.
	post, get         func(w http.ResponseWriter, r *http.Request, h hit, n int)
	initialize, other func(w http.ResponseWriter, r *http.Request, h hit)

	mu    sync.Mutex
	begun time.Time
	all   []hit
	posts int
	gets  int
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(raw, &m)
	if m.Method == "server/discover" {
		http.Error(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":{"code":-32600,"message":"no session"}}`, http.StatusBadRequest)
		return
	}
	h := hit{
		verb: r.Method, host: r.Host, session: r.Header.Get("Mcp-Session-Id"), version: r.Header.Get("Mcp-Protocol-Version"),
		cursor: r.Header.Get("Last-Event-Id"), method: m.Method, id: string(m.ID), body: string(raw), header: r.Header,
	}
	s.mu.Lock()
	if s.begun.IsZero() {
		s.begun = time.Now()
	}
	h.at = time.Since(s.begun)
	s.all = append(s.all, h)
	question := h.verb == http.MethodPost && h.id != "" && h.method != "" && h.method != "initialize"
	if question {
		s.posts++
	}
	if h.verb == http.MethodGet {
		s.gets++
	}
	posts, gets := s.posts, s.gets
	s.mu.Unlock()
	switch {
	case h.method == "initialize" && s.initialize != nil:
		s.initialize(w, r, h)
	case h.method == "initialize":
		w.Header().Set("Mcp-Session-Id", "sid")
		answer(w, h, initialized("2025-11-25"))
	case question:
		s.post(w, r, h, posts)
	case h.verb == http.MethodGet && s.get != nil:
		s.get(w, r, h, gets)
	case h.verb == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case s.other != nil:
		s.other(w, r, h)
	case h.verb == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func initialized(version string) string {
	return `{"protocolVersion":"` + version + `","capabilities":{},"serverInfo":{"name":"script","version":"1"}}`
}

// hits are those of a verb, and of a method if that is not "".
func (s *script) hits(verb, method string) []hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all), func(h hit) bool { return h.verb != verb || method != "" && h.method != method })
}

// gaps are the times between the GETs, the first counted from the last POST of a request.
func (s *script) gaps() []time.Duration {
	last := s.hits(http.MethodPost, "tools/call")
	at := last[len(last)-1].at
	var gaps []time.Duration
	for _, h := range s.hits(http.MethodGet, "") {
		gaps = append(gaps, h.at-at)
		at = h.at
	}
	return gaps
}

// result is the response to a request.
func result(h hit, value string) string {
	return `{"jsonrpc":"2.0","id":` + h.id + `,"result":` + value + `}`
}

// done is the response to the request of id 2, the first after initialize.
const done = `{"jsonrpc":"2.0","id":2,"result":{"ok":true}}`

func note(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"n":%d}}`, n)
}

func answer(w http.ResponseWriter, h hit, value string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, result(h, value))
}

// stream writes events as they are, and flushes.
func stream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// event is a message with an event id; primer, an id alone.
func event(id, message string) string { return "id: " + id + "\ndata: " + message + "\n\n" }

func primer(id string) string { return "id: " + id + "\ndata: \n\n" }

// take collects the params of a call's messages until it ends.
func take(call *client.Call) (got []string) {
	for m := range call.Messages() {
		got = append(got, string(m.Params))
	}
	return got
}

// play connects to a script and starts its first call.
func play(t *testing.T, s *script, cfg client.Config) (*wire, *client.Session, *client.Call) {
	t.Helper()
	w, hc := serveOn(t, s)
	session := connect(t, hc, cfg)
	return w, session, start(t, session)
}

// pause lets time pass, unless nobody waits any more.
func pause(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}
