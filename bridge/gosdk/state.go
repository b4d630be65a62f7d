package gosdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// state is what another process needs to go on with a session.
type state struct {
	Initialize  json.RawMessage  `json:"initialize"` // its params, as the SDK got them
	Version     string           `json:"version"`
	Initialized bool             `json:"initialized,omitempty"`
	LogLevel    mcp.LoggingLevel `json:"logLevel,omitempty"`
	Subscribed  map[string]bool  `json:"subscribed,omitempty"` // by URI
}

// observe keeps the state up to date: the SDK tells only its own transports.
func (c *session) observe(call *rejoin.Call, result json.RawMessage) {
	params := call.Params()
	switch method := call.Method(); method {
	case "initialize":
		var r mcp.InitializeResult
		if json.Unmarshal(result, &r) == nil {
			c.save(func(st *state) { st.Initialize, st.Version = clamp(params), r.ProtocolVersion })
		}
	case "logging/setLevel":
		var p mcp.SetLoggingLevelParams
		if json.Unmarshal(params, &p) == nil {
			c.save(func(st *state) { st.LogLevel = p.Level })
		}
	case "resources/subscribe", "resources/unsubscribe":
		var p mcp.SubscribeParams
		if json.Unmarshal(params, &p) == nil {
			c.save(func(st *state) {
				if delete(st.Subscribed, p.URI); method == "resources/subscribe" {
					if st.Subscribed == nil {
						st.Subscribed = map[string]bool{}
					}
					st.Subscribed[p.URI] = true
				}
			})
		}
	}
}

func (c *session) save(change func(*state)) {
	c.saving.Lock() // also while it is written down: in the order of the changes
	defer c.saving.Unlock()
	change(&c.state)
	raw, err := json.Marshal(&c.state)
	if err == nil {
		err = c.s.SaveState(raw)
	}
	if err != nil && !errors.Is(err, rejoin.ErrSessionEnded) {
		c.s.Logger().Warn("rejoin: a session cannot move to another process", "error", err)
	}
}

// restore goes on where another process was. The SDK forgets subscriptions, so they are made again; nobody waits for the answer.
func (c *session) restore(r *http.Request, saved []byte) (*mcp.ServerSessionOptions, error) {
	if saved == nil {
		return nil, nil //nolint:nilnil // the SDK's word for a new session
	}
	var initialize mcp.InitializeParams
	var roots struct {
		Capabilities struct {
			Roots *mcp.RootCapabilities `json:"roots"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(saved, &c.state); err != nil {
		return nil, fmt.Errorf("the session's state: %w", err)
	}
	err := errors.Join(json.Unmarshal(c.state.Initialize, &initialize), json.Unmarshal(c.state.Initialize, &roots))
	if err != nil {
		return nil, fmt.Errorf("the session's initialize: %w", err)
	}
	if initialize.Capabilities != nil {
		initialize.Capabilities.RootsV2 = roots.Capabilities.Roots
	}
	st := &mcp.ServerSessionState{InitializeParams: &initialize, LogLevel: c.state.LogLevel}
	setVersion(st, c.state.Version)
	if c.state.Initialized {
		st.InitializedParams = &mcp.InitializedParams{}
	}
	for uri := range c.state.Subscribed {
		params, _ := json.Marshal(map[string]string{"uri": uri}) //nolint:errchkjson // strings cannot fail
		extra := &mcp.RequestExtra{Header: r.Header.Clone(), TokenInfo: auth.TokenInfoFromContext(r.Context())}
		c.queue = append(c.queue, &jsonrpc.Request{ID: makeID(c.newID()), Method: "resources/subscribe", Params: params, Extra: extra})
	}
	return &mcp.ServerSessionOptions{State: st}, nil
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
