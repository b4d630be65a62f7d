package gosdk

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
	wire "github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// savedState is what another process needs to continue a session.
type savedState struct {
	Initialize  json.RawMessage  `json:"initialize"` // the params that the SDK got
	Version     string           `json:"version"`
	Initialized bool             `json:"initialized,omitempty"`
	LogLevel    mcp.LoggingLevel `json:"logLevel,omitempty"`
	Subscribed  map[string]bool  `json:"subscribed,omitempty"` // by URI
}

// sessionState is what another process would need of a session, and the session's subscriptions. It must not refer to objects of the SDK: rejoin
// may keep it longer than the SDK's session.
type sessionState struct {
	session *rejoin.Session

	mu            sync.Mutex
	saved         savedState               // without Subscribed, which encode computes
	subscriptions map[string]*subscription // by URI
	heldURIs      int                      // how many subscriptions are held
}

// subscription is the state of a URI. Calls may run at the same time, and the order of their answers is not the order in which the SDK has
// handled them.
type subscription struct {
	active        bool // the SDK has the subscription, or may have it: see crossed
	subscribing   int  // running calls of resources/subscribe
	unsubscribing int  // running calls of resources/unsubscribe
	crossed       bool // calls of both kinds ran at the same time: the bridge cannot know which one was last
}

// held reports whether the SDK has the subscription, or may get it.
func (sub *subscription) held() bool { return sub.active || sub.subscribing > 0 }

// prepare checks a call before the SDK gets it. It returns the params for the SDK. For calls that the bridge counts it writes the params anew, so
// that the SDK reads the same value as the bridge, even if a member is there twice or in another case.
func (st *sessionState) prepare(call *rejoin.Call) (params json.RawMessage, refused *rejoin.Error) {
	params = call.Params()
	switch call.Method() {
	case "initialize":
		client := st.session.Client()
		return clampVersion(bounds.Opening(params, client.Raw, client.Capabilities)), nil
	case "logging/setLevel":
		level, ok := member(params, "level")
		if !ok || len(level) > bounds.Level {
			return nil, rejoin.Errorf(rejoin.CodeInvalidParams, "the level must be the name of one")
		}
		return paramsOf(params, "level", level), nil
	case "resources/subscribe", "resources/unsubscribe":
		uri, ok := member(params, "uri")
		switch {
		case !ok:
			return nil, rejoin.Errorf(rejoin.CodeInvalidParams, "the uri must be a string")
		case len(uri) > bounds.URIBytes:
			return nil, rejoin.Errorf(rejoin.CodeInvalidParams, bounds.LongURI)
		case !st.callBegins(uri, call.Method() == "resources/subscribe"):
			return nil, rejoin.Errorf(rejoin.CodeInvalidParams, bounds.TooManyURIs)
		}
		return paramsOf(params, "uri", uri), nil
	}
	return params, nil
}

// callBegins notes a call that subscribes or unsubscribes. It reports false if the session has too many subscriptions.
func (st *sessionState) callBegins(uri string, subscribe bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	sub := st.subscriptions[uri]
	if sub == nil {
		sub = &subscription{}
	}
	was := sub.held()
	switch {
	case !subscribe:
		sub.unsubscribing++
	case !was && st.heldURIs >= bounds.URIs:
		return false
	default:
		sub.subscribing++
	}
	sub.crossed = sub.crossed || sub.subscribing > 0 && sub.unsubscribing > 0
	st.subscriptions[uri] = sub
	if !was && sub.held() {
		st.heldURIs++
	}
	return true
}

// callEnds notes that the SDK has answered such a call, and whether it succeeded. After calls that crossed, the subscription counts as active
// until a later call unsubscribes.
func (st *sessionState) callEnds(uri string, subscribe, succeeded bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	sub := st.subscriptions[uri]
	if sub == nil {
		return
	}
	was := sub.held()
	if subscribe {
		sub.subscribing--
		sub.active = sub.active || succeeded
	} else {
		sub.unsubscribing--
		sub.active = sub.active && !(succeeded && !sub.crossed)
	}
	if sub.subscribing == 0 && sub.unsubscribing == 0 {
		sub.crossed = false
		if !sub.active {
			delete(st.subscriptions, uri)
		}
	}
	if was && !sub.held() {
		st.heldURIs--
	}
}

// answered updates the state after the SDK has answered a call. The SDK reports changes of its state only to its own transports.
func (st *sessionState) answered(call *rejoin.Call, answer *jsonrpc.Response) {
	params, succeeded := call.Params(), answer.Error == nil
	switch method := call.Method(); method {
	case "initialize":
		var r mcp.InitializeResult
		if succeeded && json.Unmarshal(answer.Result, &r) == nil {
			client := st.session.Client()
			st.update(func() {
				st.saved.Initialize, st.saved.Version = bytes.Clone(clampVersion(bounds.Opening(params, client.Raw, client.Capabilities))), r.ProtocolVersion
			})
		}
	case "logging/setLevel":
		if level, ok := member(params, "level"); ok && succeeded {
			st.update(func() { st.saved.LogLevel = mcp.LoggingLevel(level) })
		}
	case "resources/subscribe", "resources/unsubscribe":
		if uri, ok := member(params, "uri"); ok {
			st.callEnds(uri, method == "resources/subscribe", succeeded)
			st.update(func() {}) // encode reads the subscriptions
		}
	}
}

func (st *sessionState) initialized() { st.update(func() { st.saved.Initialized = true }) }

// update changes the state with f, and tells rejoin that it has changed. rejoin calls encode when it needs the state, so an update costs only
// what f does.
func (st *sessionState) update(f func()) {
	st.mu.Lock()
	f()
	st.mu.Unlock()
	_ = st.session.SaveStateFunc(st.encode) // the session may have ended
}

// encode returns the state for another process, as JSON.
func (st *sessionState) encode() []byte {
	st.mu.Lock()
	defer st.mu.Unlock()
	out := st.saved
	for uri, sub := range st.subscriptions {
		if sub.active {
			if out.Subscribed == nil {
				out.Subscribed = map[string]bool{}
			}
			out.Subscribed[uri] = true
		}
	}
	raw, err := json.Marshal(&out)
	if err != nil {
		st.session.Logger().Warn("rejoin: a session cannot move to another process", "error", err)
		return nil
	}
	return raw
}

// member returns a member of params, "" if it is missing. It reports false if the member is not a string.
func member(params json.RawMessage, name string) (string, bool) {
	raw, ok := wire.Field(params, name)
	if !ok {
		return "", true
	}
	return wire.Unquote(raw)
}

// paramsOf returns params with the given member, and with _meta as it is in params.
func paramsOf(params json.RawMessage, name, value string) json.RawMessage {
	out := wire.AppendString(append(append([]byte(`{"`), name...), `":`...), value)
	if meta, ok := wire.Field(params, "_meta"); ok {
		out = append(append(out, `,"_meta":`...), meta...)
	}
	return append(out, '}')
}

// newestLegacy is the newest version that has initialize.
const newestLegacy = "2025-11-25"

// clampVersion lowers the requested version of initialize to the newest one that has initialize. Otherwise the SDK would negotiate that version
// too, but refuse what the requested version does not have.
func clampVersion(params json.RawMessage) json.RawMessage {
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
