package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// restore prepares the session, with the state that another process has saved if saved is not nil. r is the
// request that opens it.
func (s *session) restore(r *http.Request, saved []byte) (*mcp.ServerSessionOptions, error) {
	s.state = &sessionState{session: s.session, subscriptions: map[string]*subscription{}}
	if saved == nil {
		return nil, nil //nolint:nilnil // to the SDK nil is a new session
	}
	var initialize mcp.InitializeParams
	var roots struct {
		Capabilities struct {
			Roots *mcp.RootCapabilities `json:"roots"`
		} `json:"capabilities"`
	}
	st := &s.state.saved
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
	sdkState := &mcp.ServerSessionState{InitializeParams: &initialize, LogLevel: st.LogLevel}
	setVersion(sdkState, st.Version)
	if st.Initialized {
		sdkState.InitializedParams = &mcp.InitializedParams{}
	}
	ctx, header := context.WithoutCancel(r.Context()), r.Header.Clone()
	for uri := range st.Subscribed {
		s.state.subscriptions[uri] = &subscription{active: true}
		s.subscribe(ctx, header, uri)
	}
	s.state.heldURIs, st.Subscribed = len(st.Subscribed), nil
	s.state.update(func() {})
	return &mcp.ServerSessionOptions{State: sdkState}, nil
}

// subscribe asks the SDK for a subscription anew: the SDK does not restore it. No other goroutine has s yet.
func (s *session) subscribe(ctx context.Context, header http.Header, uri string) {
	if s.restoring == nil {
		s.restoring, s.unanswered = map[string][]func(){}, map[string]*jsonrpc.Request{}
	}
	extra, in := s.newIncoming(ctx, header)
	id := s.newID()
	m := &jsonrpc.Request{ID: makeID(id), Method: "resources/subscribe", Params: paramsOf(nil, "uri", uri), Extra: extra}
	s.calls[id], s.incoming[in.key], s.unanswered[id], s.restoring[uri] = in, in, m, nil
	s.queue = append(s.queue, m)
}

// afterRestoring has f called when the subscription of a URI is restored, and reports whether it is being restored now. Otherwise the SDK could
// handle a call that unsubscribes before the subscription.
func (s *session) afterRestoring(uri string, f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting, yes := s.restoring[uri]
	if yes {
		s.restoring[uri] = append(waiting, f)
	}
	return yes
}

// restored notes how the SDK has answered subscribe. If the handler of the server refused it, the saved state keeps it: the client was not told,
// and the next owner may succeed.
func (s *session) restored(uri string, err error) {
	if err != nil {
		s.session.Logger().Warn("rejoin: a subscription could not be restored: its client is not told of changes of this resource", "error", err)
	}
	s.mu.Lock()
	waiting := s.restoring[uri]
	delete(s.restoring, uri)
	s.mu.Unlock()
	for _, f := range waiting {
		f()
	}
}
