package gosdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
	wire "github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// state is what another process needs to go on with a session.
type state struct {
	Initialize  json.RawMessage  `json:"initialize"` // its params, as the SDK got them
	Version     string           `json:"version"`
	Initialized bool             `json:"initialized,omitempty"`
	LogLevel    mcp.LoggingLevel `json:"logLevel,omitempty"`
	Subscribed  map[string]bool  `json:"subscribed,omitempty"` // by URI
}

// memory is what the bridge knows of a session: what another process would need, and what the SDK has of subscriptions. It leads to nothing of the
// SDK's: rejoin may keep it longer than the session.
type memory struct {
	s *rejoin.Session

	mu    sync.Mutex
	state state // but for Subscribed
	uris  map[string]*subscription
	held  int // of uris: those that the SDK has or may get
}

// subscription is what is known of a URI: calls may cross, and be answered in another order than the SDK has served them.
type subscription struct {
	on      bool // the SDK has it
	coming  int  // calls that subscribe to it
	leaving int  // calls that take it back
	crossed bool // calls of both kinds were under way at once: who was last nobody knows
}

func (s *subscription) held() bool { return s.on || s.coming > 0 }

// begin looks at a call before the SDK gets it. params are for the SDK: of what the bridge counts it must read the same as the bridge, however
// it decodes a member that is there twice, or is spelt in another case.
func (m *memory) begin(call *rejoin.Call) (params json.RawMessage, refused *rejoin.Error) {
	params = call.Params()
	switch call.Method() {
	case "initialize":
		client := m.s.Client()
		return clamp(bounds.Opening(params, client.Raw, client.Capabilities)), nil
	case "logging/setLevel":
		level, ok := member(params, "level")
		if !ok || len(level) > bounds.Level {
			return nil, rejoin.Errorf(rejoin.CodeInvalidParams, "the level must be the name of one")
		}
		return only(params, "level", level), nil
	case "resources/subscribe", "resources/unsubscribe":
		uri, ok := member(params, "uri")
		switch {
		case !ok:
			return nil, rejoin.Errorf(rejoin.CodeInvalidParams, "the uri must be a string")
		case len(uri) > bounds.URIBytes:
			return nil, rejoin.Errorf(rejoin.CodeInvalidParams, bounds.LongURI)
		case !m.count(uri, call.Method() == "resources/subscribe"):
			return nil, rejoin.Errorf(rejoin.CodeInvalidParams, bounds.TooManyURIs)
		}
		return only(params, "uri", uri), nil
	}
	return params, nil
}

// count notes a call that is about to subscribe, or to take a subscription back. It reports false where there is no room.
func (m *memory) count(uri string, subscribe bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.uris[uri]
	if s == nil {
		s = &subscription{}
	}
	was := s.held()
	switch {
	case !subscribe:
		s.leaving++
	case !was && m.held >= bounds.URIs:
		return false
	default:
		s.coming++
	}
	s.crossed = s.crossed || s.coming > 0 && s.leaving > 0
	m.uris[uri] = s
	if !was && s.held() {
		m.held++
	}
	return true
}

// uncount notes that the SDK has answered such a call. What crossed counts as subscribed until it is taken back.
func (m *memory) uncount(uri string, subscribe, done bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.uris[uri]
	if s == nil {
		return
	}
	was := s.held()
	if subscribe {
		s.coming--
		s.on = s.on || done
	} else {
		s.leaving--
		s.on = s.on && !(done && !s.crossed)
	}
	if s.coming == 0 && s.leaving == 0 {
		s.crossed = false
		if !s.on {
			delete(m.uris, uri)
		}
	}
	if was && !s.held() {
		m.held--
	}
}

// finish keeps the state up to date with a call that the SDK has answered, since it tells only its own transports. A nil answer: it has not got the
// call.
func (m *memory) finish(call *rejoin.Call, answer *jsonrpc.Response) {
	params, done := call.Params(), answer != nil && answer.Error == nil
	switch method := call.Method(); method {
	case "initialize":
		var r mcp.InitializeResult
		if done && json.Unmarshal(answer.Result, &r) == nil {
			client := m.s.Client()
			m.change(func() {
				m.state.Initialize, m.state.Version = bytes.Clone(clamp(bounds.Opening(params, client.Raw, client.Capabilities))), r.ProtocolVersion
			})
		}
	case "logging/setLevel":
		if level, ok := member(params, "level"); ok && done {
			m.change(func() { m.state.LogLevel = mcp.LoggingLevel(level) })
		}
	case "resources/subscribe", "resources/unsubscribe":
		if uri, ok := member(params, "uri"); ok {
			m.uncount(uri, method == "resources/subscribe", done)
			m.change(func() {})
		}
	}
}

func (m *memory) initialized() { m.change(func() { m.state.Initialized = true }) }

// change changes the state, and says so. The state is written down when somebody wants it: a change costs as little as it changes.
func (m *memory) change(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	_ = m.s.SaveStateFunc(m.saved) // the session may have ended
}

// saved is the state for another process.
func (m *memory) saved() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.state
	for uri, s := range m.uris {
		if s.on {
			if st.Subscribed == nil {
				st.Subscribed = map[string]bool{}
			}
			st.Subscribed[uri] = true
		}
	}
	raw, err := json.Marshal(&st)
	if err != nil {
		m.s.Logger().Warn("rejoin: a session cannot move to another process", "error", err)
		return nil
	}
	return raw
}

// member is a member of params that must be a string, or not be there.
func member(params json.RawMessage, name string) (string, bool) {
	raw, ok := wire.Field(params, name)
	if !ok {
		return "", true
	}
	return wire.Unquote(raw)
}

// only is params of that member and _meta.
func only(params json.RawMessage, name, value string) json.RawMessage {
	out := wire.AppendString(append(append([]byte(`{"`), name...), `":`...), value)
	if meta, ok := wire.Field(params, "_meta"); ok {
		out = append(append(out, `,"_meta":`...), meta...)
	}
	return append(out, '}')
}

// restore goes on where another process was. The SDK forgets subscriptions, so they are made again; nobody waits for the answer.
func (c *session) restore(r *http.Request, saved []byte) (*mcp.ServerSessionOptions, error) {
	c.memory = &memory{s: c.s, uris: map[string]*subscription{}}
	if saved == nil {
		return nil, nil //nolint:nilnil // the SDK's word for a new session
	}
	var initialize mcp.InitializeParams
	var roots struct {
		Capabilities struct {
			Roots *mcp.RootCapabilities `json:"roots"`
		} `json:"capabilities"`
	}
	st := &c.memory.state
	if err := json.Unmarshal(saved, st); err != nil {
		return nil, fmt.Errorf("the session's state: %w", err)
	}
	err := errors.Join(json.Unmarshal(st.Initialize, &initialize), json.Unmarshal(st.Initialize, &roots))
	if err != nil {
		return nil, fmt.Errorf("the session's initialize: %w", err)
	}
	if initialize.Capabilities != nil {
		initialize.Capabilities.RootsV2 = roots.Capabilities.Roots
	}
	sdk := &mcp.ServerSessionState{InitializeParams: &initialize, LogLevel: st.LogLevel}
	setVersion(sdk, st.Version)
	if st.Initialized {
		sdk.InitializedParams = &mcp.InitializedParams{}
	}
	header := r.Header.Clone()
	for uri := range st.Subscribed {
		c.memory.uris[uri] = &subscription{on: true}
		extra := &mcp.RequestExtra{Header: header, TokenInfo: auth.TokenInfoFromContext(r.Context())}
		c.queue = append(c.queue, &jsonrpc.Request{ID: makeID(c.newID()), Method: "resources/subscribe", Params: only(nil, "uri", uri), Extra: extra})
	}
	c.memory.held, st.Subscribed = len(st.Subscribed), nil
	c.memory.change(func() {})
	return &mcp.ServerSessionOptions{State: sdk}, nil
}

// newestLegacy is the newest version that has an initialize.
const newestLegacy = "2025-11-25"

// clamp asks for no newer version than initialize can open. The SDK would open the newest of those, but go on to refuse what the
// version that was asked for does not have.
func clamp(params json.RawMessage) json.RawMessage {
	var p map[string]json.RawMessage
	var version string
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p["protocolVersion"], &version) != nil || version <= newestLegacy {
		return params
	}
	p["protocolVersion"] = json.RawMessage(`"` + newestLegacy + `"`)
	clamped, err := json.Marshal(p)
	if err != nil {
		return params
	}
	return clamped
}
