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

	saving sync.Mutex // from a change until it is written down: in the order of the changes

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
	m.opened, m.ready = true, true
	return nil
}

// open begins to write the state down.
func (m *memory) open() { m.change(func() { m.opened = true }) }

// change changes the state, and writes it down once the session is open.
func (m *memory) change(f func()) {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	f()
	opened := m.opened
	raw, err := json.Marshal(&m.state)
	m.mu.Unlock()
	if !opened {
		return
	}
	if err == nil {
		err = m.s.SaveState(raw)
	}
	if err != nil && !errors.Is(err, rejoin.ErrSessionEnded) {
		m.s.Logger().Warn("rejoin: a session cannot move to another process", "error", err)
	}
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

func (m *memory) SubscribeToResourceErr(uri string) error {
	m.SubscribeToResource(uri)
	return nil
}

func (m *memory) SubscribeToResource(uri string) {
	m.change(func() {
		if m.state.Subscribed == nil {
			m.state.Subscribed = map[string]bool{}
		}
		m.state.Subscribed[uri] = true
	})
}

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
