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

// savedState is what another process needs to continue a session. A session's own tools and resources are not in it, because they contain functions.
type savedState struct {
	Client       mcp.Implementation     `json:"client"`
	Capabilities mcp.ClientCapabilities `json:"capabilities"`
	Version      string                 `json:"version"`
	LogLevel     mcp.LoggingLevel       `json:"logLevel,omitempty"`
	Subscribed   map[string]bool        `json:"subscribed,omitempty"` // by URI
}

// sessionState is the data that mcp-go keeps in a session. All clientSessions of a session share it.
type sessionState struct {
	session *rejoin.Session

	mu          sync.RWMutex
	saved       savedState
	saving      bool // initialize has succeeded, so changes of saved are reported to rejoin
	initialized bool // mcp-go has called Initialize
	tools       map[string]server.ServerTool
	resources   map[string]server.ServerResource
	templates   map[string]server.ServerResourceTemplate
	filter      mcp.SubscriptionFilter
	hasFilter   bool
}

// restore takes over the state that another process has saved.
func (st *sessionState) restore(saved []byte) error {
	if err := json.Unmarshal(saved, &st.saved); err != nil {
		return fmt.Errorf("the session's state: %w", err)
	}
	st.initialized = true
	st.startSaving()
	return nil
}

// startSaving starts to report changes of the state to rejoin.
func (st *sessionState) startSaving() { st.update(func() { st.saving = true }) }

// update changes the state with f, and tells rejoin that it has changed. rejoin calls encode when it needs the state, so an update costs only
// what f does.
func (st *sessionState) update(f func()) {
	st.mu.Lock()
	f()
	saving := st.saving
	st.mu.Unlock()
	if saving {
		_ = st.session.SaveStateFunc(st.encode) // the session may have ended
	}
}

// encode returns the state for another process, as JSON.
func (st *sessionState) encode() []byte {
	st.mu.RLock()
	defer st.mu.RUnlock()
	raw, err := json.Marshal(&st.saved)
	if err != nil {
		st.session.Logger().Warn("rejoin: a session cannot move to another process", "error", err)
		return nil
	}
	return raw
}

// set sets a field that is not saved.
func set[T any](st *sessionState, field *T, v T) {
	st.mu.Lock()
	defer st.mu.Unlock()
	*field = v
}

func get[T any](st *sessionState, field *T) T {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return *field
}

func (st *sessionState) Initialize()       { set(st, &st.initialized, true) }
func (st *sessionState) Initialized() bool { return get(st, &st.initialized) }

func (st *sessionState) GetClientInfo() mcp.Implementation { return get(st, &st.saved.Client) }
func (st *sessionState) SetClientInfo(v mcp.Implementation) {
	st.update(func() { st.saved.Client = v })
}

func (st *sessionState) GetClientCapabilities() mcp.ClientCapabilities {
	return get(st, &st.saved.Capabilities)
}
func (st *sessionState) SetClientCapabilities(v mcp.ClientCapabilities) {
	st.update(func() { st.saved.Capabilities = v })
}

func (st *sessionState) ProtocolVersion() string     { return get(st, &st.saved.Version) }
func (st *sessionState) SetProtocolVersion(v string) { st.update(func() { st.saved.Version = v }) }

func (st *sessionState) GetLogLevel() mcp.LoggingLevel  { return get(st, &st.saved.LogLevel) }
func (st *sessionState) SetLogLevel(v mcp.LoggingLevel) { st.update(func() { st.saved.LogLevel = v }) }

var (
	errManyURIs = errors.New(bounds.TooManyURIs)
	errLongURI  = errors.New(bounds.LongURI)
)

// SubscribeToResourceErr returns an error if the subscription would exceed the bounds.
func (st *sessionState) SubscribeToResourceErr(uri string) (refused error) {
	if len(uri) > bounds.URIBytes {
		return errLongURI
	}
	st.update(func() {
		switch {
		case st.saved.Subscribed == nil:
			st.saved.Subscribed = map[string]bool{}
		case len(st.saved.Subscribed) >= bounds.URIs && !st.saved.Subscribed[uri]:
			refused = errManyURIs
			return
		}
		st.saved.Subscribed[uri] = true
	})
	return refused
}

// SubscribeToResource has no effect if the subscription would exceed the bounds.
func (st *sessionState) SubscribeToResource(uri string) { _ = st.SubscribeToResourceErr(uri) }

func (st *sessionState) UnsubscribeFromResource(uri string) {
	st.update(func() { delete(st.saved.Subscribed, uri) })
}

func (st *sessionState) SubscribedResources() []string {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return slices.Sorted(maps.Keys(st.saved.Subscribed))
}

func (st *sessionState) IsSubscribedToResource(uri string) bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.saved.Subscribed[uri]
}

func (st *sessionState) GetSessionTools() map[string]server.ServerTool {
	return maps.Clone(get(st, &st.tools))
}

func (st *sessionState) SetSessionTools(v map[string]server.ServerTool) {
	set(st, &st.tools, maps.Clone(v))
}

func (st *sessionState) GetSessionResources() map[string]server.ServerResource {
	return maps.Clone(get(st, &st.resources))
}

func (st *sessionState) SetSessionResources(v map[string]server.ServerResource) {
	set(st, &st.resources, maps.Clone(v))
}

func (st *sessionState) GetSessionResourceTemplates() map[string]server.ServerResourceTemplate {
	return maps.Clone(get(st, &st.templates))
}

func (st *sessionState) SetSessionResourceTemplates(v map[string]server.ServerResourceTemplate) {
	set(st, &st.templates, maps.Clone(v))
}

func (st *sessionState) SetSubscriptionFilter(v mcp.SubscriptionFilter) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.filter, st.hasFilter = v, !v.IsEmpty()
}

func (st *sessionState) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.filter, st.hasFilter
}
