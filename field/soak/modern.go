package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

const modernVersion = "2026-07-28"

// modern is a client of the modern era. Of its session it uses only what is not about sessions: connections, cuts, faults.
type modern struct {
	*session
	user string // the server's Principal
}

func newModern(s *session) *modern {
	s.version, s.polls = modernVersion, false
	return &modern{session: s, user: "user-" + s.name}
}

// live runs the client.
func (m *modern) live(ctx context.Context) {
	defer m.pool.close()
	m.noteContact()
	m.ledger.count("modern clients")
	if m.r.IntN(2) == 0 && !m.discover(ctx) {
		return
	}
	slots := make(chan struct{}, 1+m.r.IntN(3))
	calls := 1 + m.r.IntN(12)
	vanishes := m.r.IntN(10) == 0
	for k := range calls {
		if !m.waitForNextCall(m.r) {
			break
		}
		slots <- struct{}{}
		c := newModernCall(m, k)
		m.work.Go(func() {
			defer func() { <-slots }()
			c.run(ctx)
		})
	}
	if vanishes && !m.isStopping() {
		m.disappear()
	} else {
		m.work.Wait()
	}
	m.settled()
}

// discover asks what the server offers: tasks, and not those of older versions.
func (m *modern) discover(ctx context.Context) bool {
	a := m.ask(ctx, m.r, m.request("server/discover", "", nil, true), false)
	var offers struct {
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	_ = json.Unmarshal(a.Result, &offers) // what is missing is not as expected
	_, old := offers.Capabilities["tasks"]
	if a.err == nil && !old && strings.Contains(string(offers.Capabilities["extensions"]), `"io.modelcontextprotocol/tasks":{}`) {
		return true
	}
	if !m.gone.Load() && !errors.Is(a.err, errCut) {
		m.faultf(a.conn, "server/discover", "status %d, %v: %s", a.status, a.err, a.raw)
	}
	return false
}

// modernRequest is a request of the modern era.
type modernRequest struct {
	id   int64
	head header
	body []byte
}

// request makes a request. name is what its head repeats of params; declares: the client takes tasks.
func (m *modern) request(method, name string, params map[string]any, declares bool) modernRequest {
	id := m.ids.Add(1)
	capabilities := map[string]any{"elicitation": map[string]any{}}
	if declares {
		capabilities["extensions"] = map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}
	}
	all := map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion": modernVersion, "io.modelcontextprotocol/clientInfo": map[string]any{"name": "soak", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": capabilities, "io.modelcontextprotocol/logLevel": "debug", "progressToken": m.token(id),
	}}
	maps.Copy(all, params)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": all})
	if err != nil {
		panic(err)
	}
	h := header{
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": modernVersion, "Mcp-Method": method, "Soak-User": m.user,
	}
	if name != "" {
		h["Mcp-Name"] = name
	}
	return modernRequest{id, h, body}
}

// token is the progress token of a request.
func (m *modern) token(id int64) string { return fmt.Sprintf("%s#%d", m.name, id) }

// modernAnswer is the answer to a request that is answered at once.
type modernAnswer struct {
	message

	Result json.RawMessage // in place of the message's
	raw    []byte
	status int
	conn   *clientConn
	err    error // errCut: the client has cut the connection
}

// ask sends a request and reads its answer. cuts: the client may cut the connection at any time.
func (m *modern) ask(ctx context.Context, r *rand.Rand, q modernRequest, cuts bool) (a modernAnswer) {
	a.err = m.exchange(ctx, r, q, cuts, &a, func(data []byte) { a.raw = bytes.Clone(data) })
	if a.err == nil {
		var only struct {
			Result json.RawMessage `json:"result"`
		}
		if a.err = json.Unmarshal(a.raw, &only); a.err == nil {
			a.Result = only.Result
			a.message = message{}
			_ = json.Unmarshal(a.raw, &a.message) // a result of another form has no Content
		}
	}
	return a
}

// exchange sends a request and passes each message of the answer to take. It notes status and connection in a.
func (m *modern) exchange(ctx context.Context, r *rand.Rand, q modernRequest, cuts bool, a *modernAnswer, take func(data []byte)) error {
	w, err := m.pool.get(ctx, m.site.Addr)
	if err != nil {
		return err
	}
	a.conn = w
	defer context.AfterFunc(ctx, func() { w.disconnect(false) })()
	if cuts {
		m.planEnd(r, w, about(r))
	} else {
		m.keep(w)
	}
	defer m.drop(w)
	resp, err := w.send(http.MethodPost, m.site, q.head, q.body)
	if err == nil {
		a.status = resp.status
		err = readMessages(resp, take)
	}
	switch {
	case err != nil && w.cut.Load():
		m.ledger.count("cuts")
		err = errCut
		w.disconnect(false)
	case err != nil, resp.last:
		w.disconnect(false)
	default:
		m.drop(w)
		m.pool.put(w)
	}
	return err
}

// readMessages reads a response to its end.
func readMessages(resp *response, take func(data []byte)) error {
	if !resp.streams() {
		text, err := resp.text()
		if err == nil {
			take([]byte(text))
		}
		return err
	}
	events := sse.NewReader(resp.body, 1<<20)
	for {
		ev, err := events.Next()
		switch {
		case err == nil:
			take(ev.Data)
		case isEOF(err):
			return nil
		default:
			return err
		}
	}
}

// strangers has tasks of other clients, for those that ask for what is not theirs.
type strangers struct {
	mu   sync.Mutex
	last map[site]stranger
}

type stranger struct{ id, user string }

// peek returns the newest task at a site.
func (s *strangers) peek(at site) stranger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[at]
}

// swap returns the newest task at a site, and puts another one in its place.
func (s *strangers) swap(at site, with stranger) stranger {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[site]stranger{}
	}
	old := s.last[at]
	s.last[at] = with
	return old
}
