package client_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// tasking is a server of the modern era that does what a test wants, for what a real one would not do. It makes a task "t1" of each call, which
// is working, and acknowledges the rest. It checks that each request names itself in header and body, and writes down what comes.
type tasking struct {
	t        *testing.T
	discover string                                                   // the result of server/discover; "": with tasks
	on       map[string]func(w http.ResponseWriter, h request, n int) // by method, in place of the usual answer; n counts, from 1

	mu    sync.Mutex
	begun time.Time
	all   []request
}

// request is what reached a tasking server.
type request struct {
	method, id string
	params     map[string]json.RawMessage
	at         time.Duration // since the first request
	gone       <-chan struct{}
}

const withTasks = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

func (s *tasking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params map[string]json.RawMessage
	}
	assert.NoError(s.t, json.Unmarshal(raw, &m), "%s %s", r.Method, raw)
	s.checkHeader(r, m.Method, m.Params)
	h := request{method: m.Method, id: string(m.ID), params: m.Params, gone: r.Context().Done()}
	s.mu.Lock()
	if s.begun.IsZero() {
		s.begun = time.Now()
	}
	h.at = time.Since(s.begun)
	s.all = append(s.all, h)
	n := 0
	for _, other := range s.all {
		if other.method == h.method {
			n++
		}
	}
	s.mu.Unlock()
	switch on := s.on[h.method]; {
	case on != nil:
		on(w, h, n)
	case h.method == "server/discover" && s.discover != "":
		h.answer(w, s.discover)
	case h.method == "server/discover":
		h.answer(w, withTasks)
	case h.method == "tools/call":
		h.answer(w, state("task", "working", ""))
	case h.method == "tasks/get":
		h.answer(w, state("complete", "working", ""))
	default:
		h.answer(w, `{"resultType":"complete"}`)
	}
}

// checkHeader checks what each request of the era must say of itself.
func (s *tasking) checkHeader(r *http.Request, method string, params map[string]json.RawMessage) {
	var meta map[string]json.RawMessage
	_ = json.Unmarshal(params["_meta"], &meta) // what is missing is seen below
	assert.Equal(s.t, "2026-07-28", r.Header.Get("Mcp-Protocol-Version"))
	assert.JSONEq(s.t, `"2026-07-28"`, string(meta["io.modelcontextprotocol/protocolVersion"]))
	assert.JSONEq(s.t, `{"name":"rejoin","version":"0"}`, string(meta["io.modelcontextprotocol/clientInfo"]))
	assert.Contains(s.t, string(meta["io.modelcontextprotocol/clientCapabilities"]), `"extensions":{"io.modelcontextprotocol/tasks":{}}`)
	assert.Equal(s.t, method, r.Header.Get("Mcp-Method"))
	assert.NotContains(s.t, r.Header, "Mcp-Session-Id")
	name := params["taskId"]
	if method == "tools/call" {
		name = params["name"]
	}
	got := r.Header.Get("Mcp-Name")
	if encoded, ok := strings.CutPrefix(got, "=?base64?"); ok {
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?="))
		assert.NoError(s.t, err)
		got = string(decoded)
	}
	if name != nil {
		quoted, _ := json.Marshal(got)
		assert.JSONEq(s.t, string(name), string(quoted))
	} else {
		assert.NotContains(s.t, r.Header, "Mcp-Name")
	}
}

// hits are the requests with a method.
func (s *tasking) hits(method string) (list []request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		if h.method == method {
			list = append(list, h)
		}
	}
	return list
}

// gaps are the times between the polls, in steps of 10 ms, the first counted from the call.
func (s *tasking) gaps() (gaps []time.Duration) {
	last := s.hits("tools/call")[0].at
	for _, h := range s.hits("tasks/get") {
		gaps = append(gaps, (h.at - last).Truncate(10*time.Millisecond))
		last = h.at
	}
	return gaps
}

func (h request) answer(w http.ResponseWriter, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+h.id+`,"result":`+result+`}`)
}

// refuse answers with an error.
func (h request) refuse(w http.ResponseWriter, status, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, h.id, code)
}

// cut breaks the connection.
func cut(w http.ResponseWriter) {
	c, _, _ := http.NewResponseController(w).Hijack()
	_ = c.Close()
}

// state is a task in a result of that type; more is what else it has.
func state(kind, status, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"resultType":"` + kind + `","taskId":"t1","status":"` + status + `","createdAt":"2026-11-30T03:40:56.864Z",` +
		`"lastUpdatedAt":"2026-11-30T03:40:56.864Z","ttlMs":3600000,"pollIntervalMs":2000` + more + `}`
}

func completed() string { return state("complete", "completed", `"result":{"ok":true}`) }

// then is the answer to tasks/get: each of the states once, the last one for ever.
func then(states ...string) func(w http.ResponseWriter, h request, n int) {
	return func(w http.ResponseWriter, h request, n int) { h.answer(w, states[min(n, len(states))-1]) }
}

// playTask connects to a tasking server and starts a call.
func playTask(t *testing.T, s *tasking, cfg client.Config) (*http.Client, *client.Session, *client.Call) {
	t.Helper()
	s.t = t
	hc := serve(t, s)
	session := connect(t, hc, cfg)
	require.Equal(t, "2026-07-28", session.Version())
	return hc, session, start(t, session)
}

type on = map[string]func(w http.ResponseWriter, h request, n int)
