package mcpgo

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
)

// state is what another process needs to go on with a session. A session's own tools and resources are not in it: they hold functions.
type state struct {
	Client       mcp.Implementation     `json:"client"`
	Capabilities mcp.ClientCapabilities `json:"capabilities"`
	Version      string                 `json:"version"`
	LogLevel     mcp.LoggingLevel       `json:"logLevel,omitempty"`
	Subscribed   map[string]bool        `json:"subscribed,omitempty"` // by URI
}

// memory is what all lines of a session share: what mcp-go keeps in a session.
type memory struct {
	s *rejoin.Session

	mu        sync.RWMutex
	state     state
	opened    bool // initialize has succeeded
	ready     bool // mcp-go has initialized it
	tools     map[string]server.ServerTool
	resources map[string]server.ServerResource
	templates map[string]server.ServerResourceTemplate
	filter    mcp.SubscriptionFilter
	filtered  bool
}

// restore goes on where another process was.
func (m *memory) restore(saved []byte) error {
	if err := json.Unmarshal(saved, &m.state); err != nil {
		return fmt.Errorf("the session's state: %w", err)
	}
	m.ready = true
	m.open()
	return nil
}

// open begins to save the state.
func (m *memory) open() { m.change(func() { m.opened = true }) }

// change changes the state, and says so once the session is open. The state is written down when somebody wants it: a change costs as little as
// it changes.
func (m *memory) change(f func()) {
	m.mu.Lock()
	f()
	opened := m.opened
	m.mu.Unlock()
	if opened {
		_ = m.s.SaveStateFunc(m.saved) // the session may have ended
	}
}

// saved is the state for another process.
func (m *memory) saved() []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	raw, err := json.Marshal(&m.state)
	if err != nil {
		m.s.Logger().Warn("rejoin: a session cannot move to another process", "error", err)
		return nil
	}
	return raw
}

// set changes what is not written down.
func set[T any](m *memory, field *T, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*field = v
}

func get[T any](m *memory, field *T) T {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return *field
}

func (m *memory) Initialize()       { set(m, &m.ready, true) }
func (m *memory) Initialized() bool { return get(m, &m.ready) }

func (m *memory) GetClientInfo() mcp.Implementation  { return get(m, &m.state.Client) }
func (m *memory) SetClientInfo(v mcp.Implementation) { m.change(func() { m.state.Client = v }) }

func (m *memory) GetClientCapabilities() mcp.ClientCapabilities { return get(m, &m.state.Capabilities) }
func (m *memory) SetClientCapabilities(v mcp.ClientCapabilities) {
	m.change(func() { m.state.Capabilities = v })
}

func (m *memory) ProtocolVersion() string     { return get(m, &m.state.Version) }
func (m *memory) SetProtocolVersion(v string) { m.change(func() { m.state.Version = v }) }

func (m *memory) GetLogLevel() mcp.LoggingLevel  { return get(m, &m.state.LogLevel) }
func (m *memory) SetLogLevel(v mcp.LoggingLevel) { m.change(func() { m.state.LogLevel = v }) }

var (
	errManyURIs = errors.New(bounds.TooManyURIs)
	errLongURI  = errors.New(bounds.LongURI)
)

// SubscribeToResourceErr refuses what would exceed the bounds.
func (m *memory) SubscribeToResourceErr(uri string) (refused error) {
	if len(uri) > bounds.URIBytes {
		return errLongURI
	}
	m.change(func() {
		switch {
		case m.state.Subscribed == nil:
			m.state.Subscribed = map[string]bool{}
		case len(m.state.Subscribed) >= bounds.URIs && !m.state.Subscribed[uri]:
			refused = errManyURIs
			return
		}
		m.state.Subscribed[uri] = true
	})
	return refused
}

// SubscribeToResource has no effect where the bounds would be exceeded.
func (m *memory) SubscribeToResource(uri string) { _ = m.SubscribeToResourceErr(uri) }

func (m *memory) UnsubscribeFromResource(uri string) {
	m.change(func() { delete(m.state.Subscribed, uri) })
}

func (m *memory) SubscribedResources() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.state.Subscribed))
}

func (m *memory) IsSubscribedToResource(uri string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Subscribed[uri]
}

func (m *memory) GetSessionTools() map[string]server.ServerTool {
	return maps.Clone(get(m, &m.tools))
}

func (m *memory) SetSessionTools(v map[string]server.ServerTool) { set(m, &m.tools, maps.Clone(v)) }

func (m *memory) GetSessionResources() map[string]server.ServerResource {
	return maps.Clone(get(m, &m.resources))
}

func (m *memory) SetSessionResources(v map[string]server.ServerResource) {
	set(m, &m.resources, maps.Clone(v))
}

func (m *memory) GetSessionResourceTemplates() map[string]server.ServerResourceTemplate {
	return maps.Clone(get(m, &m.templates))
}

func (m *memory) SetSessionResourceTemplates(v map[string]server.ServerResourceTemplate) {
	set(m, &m.templates, maps.Clone(v))
}

func (m *memory) SetSubscriptionFilter(v mcp.SubscriptionFilter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter, m.filtered = v, !v.IsEmpty()
}

func (m *memory) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.filter, m.filtered
}
