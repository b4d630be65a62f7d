package subject

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

// bare is a server as a good engineer writes it by hand in an afternoon: encoding/json, a map of sessions, the checks that the
// specification requires, and no optimizations. barestream.go has its streams, barelog.go its logs.
type bare struct {
	stream bool // tools/call is answered with SSE
	stores bool // streams are recorded, and can be closed and resumed
	gate   *Gate

	mu       sync.RWMutex
	sessions map[string]*bareSession
}

type bareSession struct {
	ctx context.Context // ends with the session
	end context.CancelFunc

	log bareLog // used if the subject stores
}

func newBare(stream, stores bool) func(Options) (http.Handler, error) {
	return func(o Options) (http.Handler, error) {
		b := &bare{stream: stream, stores: stores, gate: o.Gate, sessions: map[string]*bareSession{}}
		mux := http.NewServeMux()
		mux.Handle(Path, b)
		return mux, nil
	}
}

// JSON-RPC.

type bareRequest struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type bareResponse struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *bareError      `json:"error,omitempty"`
}

type bareError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func respond(id json.RawMessage, result any, err error) ([]byte, error) {
	if err == nil {
		return json.Marshal(bareResponse{Version: "2.0", ID: id, Result: result})
	}
	return json.Marshal(bareResponse{Version: "2.0", ID: id, Error: &bareError{-32602, err.Error()}})
}

const bareMaxBody = 4 << 20

func (b *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" { // web pages may not call it
		http.Error(w, "forbidden origin", http.StatusForbidden)
		return
	}
	switch r.Header.Get("Mcp-Protocol-Version") {
	case "", "2025-11-25", "2025-06-18", "2025-03-26":
	default:
		http.Error(w, "unsupported protocol version", http.StatusBadRequest)
		return
	}
	switch r.Method {
	case http.MethodPost:
		b.post(w, r)
	case http.MethodGet:
		b.get(w, r)
	case http.MethodDelete:
		b.delete(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// readBare reads the message of a POST, or refuses the request and returns false.
func readBare(w http.ResponseWriter, r *http.Request) (m bareRequest, ok bool) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		http.Error(w, "the body must be application/json", http.StatusUnsupportedMediaType)
		return m, false
	}
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		http.Error(w, "application/json and text/event-stream must be acceptable", http.StatusNotAcceptable)
		return m, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bareMaxBody))
	if err != nil {
		http.Error(w, "cannot read the body", http.StatusBadRequest)
		return m, false
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Version != "2.0" {
		http.Error(w, "not a JSON-RPC message", http.StatusBadRequest)
		return m, false
	}
	return m, true
}

func (b *bare) post(w http.ResponseWriter, r *http.Request) {
	m, ok := readBare(w, r)
	if !ok {
		return
	}
	if m.Method == "initialize" {
		b.initialize(w, &m)
		return
	}
	s := b.session(w, r)
	if s == nil {
		return
	}
	switch {
	case m.ID == nil || m.Method == "": // a notification, or an answer to a question that was not asked
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "tools/call":
		b.call(w, r, s, &m)
	case m.Method == "tools/list":
		b.answer(w, &m, tools, nil)
	case m.Method == "ping":
		b.answer(w, &m, struct{}{}, nil)
	default:
		b.answer(w, &m, nil, errors.New("unknown method"))
	}
}

func accepts(r *http.Request, mediaType string) bool {
	for _, accept := range r.Header.Values("Accept") {
		if strings.Contains(accept, mediaType) || strings.Contains(accept, "*/*") {
			return true
		}
	}
	return false
}

func (b *bare) answer(w http.ResponseWriter, m *bareRequest, result any, err error) {
	data, err := respond(m.ID, result, err)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}

// Sessions.

func (b *bare) initialize(w http.ResponseWriter, m *bareRequest) {
	var params struct {
		Version string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		b.answer(w, m, nil, err)
		return
	}
	switch params.Version {
	case "2025-11-25", "2025-06-18", "2025-03-26":
	default:
		params.Version = "2025-11-25"
	}
	s := &bareSession{}
	s.ctx, s.end = context.WithCancel(context.Background())
	id := rand.Text()
	b.mu.Lock()
	b.sessions[id] = s
	b.mu.Unlock()
	w.Header().Set("Mcp-Session-Id", id)
	b.answer(w, m, map[string]any{
		"protocolVersion": params.Version,
		"capabilities":    map[string]any{"tools": map[string]any{}},
		"serverInfo":      map[string]any{"name": serverName, "version": serverVersion},
	}, nil)
}

// session returns the session of a request. If there is none, it answers the request and returns nil.
func (b *bare) session(w http.ResponseWriter, r *http.Request) *bareSession {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		http.Error(w, "a session is needed", http.StatusBadRequest)
		return nil
	}
	b.mu.RLock()
	s := b.sessions[id]
	b.mu.RUnlock()
	if s == nil {
		http.Error(w, "unknown session", http.StatusNotFound)
	}
	return s
}

func (b *bare) delete(w http.ResponseWriter, r *http.Request) {
	if b.session(w, r) == nil {
		return
	}
	id := r.Header.Get("Mcp-Session-Id")
	b.mu.Lock()
	s := b.sessions[id]
	delete(b.sessions, id)
	b.mu.Unlock()
	if s != nil {
		s.end()
	}
	w.WriteHeader(http.StatusNoContent)
}
