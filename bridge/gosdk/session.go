package gosdk

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
)

// session is a rejoin.AppSession. To the SDK it is the mcp.Connection of the session.
type session struct {
	app     *app
	session *rejoin.Session

	mu         sync.Mutex
	ss         *mcp.ServerSession
	queue      []jsonrpc.Message // for Read
	ready      sync.Cond         // queue is not empty, or ended is true
	ended      bool
	lastID     uint64
	calls      map[string]*incoming        // by the ids that the SDK gets, also what restore asks for; nil: the session has ended
	restoring  map[string][]func()         // by URI: what waits until a subscription is restored
	unanswered map[string]*jsonrpc.Request // the requests that the SDK has not answered, by the same ids
	backlog    backlog
	questions  map[jsonrpc.ID]*question

	// Calls until they are answered, and notifications until the SDK has released them.
	incoming map[weak.Pointer[mcp.RequestExtra]]*incoming

	state *sessionState
}

// Request gives the SDK its own id for the call: it decodes ids as float64, which changes some of the client's ids.
func (s *session) Request(call *rejoin.Call) {
	params, refused := s.state.prepare(call)
	if refused != nil {
		_ = call.Fail(refused)
		return
	}
	extra, in := s.newIncoming(call.Context(), call.Header())
	if h := call.Handle(); h.Resumable() {
		extra.CloseSSEStream = func(args mcp.CloseSSEStreamArgs) {
			_ = h.CloseStream(args.RetryAfter) // the SDK's function returns no error, and a tool need not know
		}
	}
	in.call = call
	m := &jsonrpc.Request{Method: call.Method(), Params: params, Extra: extra}
	if m.Method == "resources/subscribe" || m.Method == "resources/unsubscribe" {
		if uri, _ := member(params, "uri"); s.afterRestoring(uri, func() { s.start(in, m) }) {
			return
		}
	}
	s.start(in, m)
}

// start gives a call to the SDK, unless the session has ended.
func (s *session) start(in *incoming, m *jsonrpc.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended { // rejoin has answered the call
		return
	}
	id := s.newID()
	s.calls[id], s.incoming[in.key] = in, in
	m.ID = makeID(id)
	if s.unanswered == nil {
		s.unanswered = map[string]*jsonrpc.Request{}
	}
	s.unanswered[id] = m
	s.enqueue(m)
	in.stop = context.AfterFunc(in.ctx, func() {
		in.cancelHandler()
		s.cancelCall(id, context.Cause(in.ctx))
	})
}

// newID returns an id that is unique among all sessions: origin also gets contexts of other sessions. The caller holds s.mu, or no other
// goroutine has s yet.
func (s *session) newID() string {
	s.lastID++
	return string(s.session.Ref()) + "." + strconv.FormatUint(s.lastID, 10)
}

func (s *session) Notification(n *rejoin.Notification) {
	params := n.Params()
	if n.Method() == "notifications/initialized" {
		s.state.initialized()
		params = nil // the SDK would keep them, and does not use them
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	ok, first := s.backlog.admit(bounds.NoteSize(n.Raw(), n.Header()))
	if ok {
		extra, in := s.newIncoming(n.Context(), n.Header())
		s.incoming[in.key] = in
		s.deleteWith(extra, in)
		m := &jsonrpc.Request{Method: n.Method(), Params: params, Extra: extra}
		if len(n.Raw()) > largeBytes {
			s.backlog.unmarked.large = append(s.backlog.unmarked.large, m)
		}
		s.enqueue(m)
		s.sendMarker()
	}
	s.mu.Unlock()
	if first {
		s.session.Logger().Warn("rejoin: notifications of the client are dropped: too many wait for their handlers", "method", n.Method())
	}
}

// cancelCall tells the SDK that a call is cancelled. The request may still be in the SDK's queue, or in a middleware outside ours, whose context
// only the SDK can cancel.
func (s *session) cancelCall(id string, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[id] != nil {
		s.enqueue(cancellation(id, cause))
	}
}

func cancellation(id string, cause error) *jsonrpc.Request {
	params, _ := json.Marshal(map[string]string{"requestId": id, "reason": cause.Error()}) //nolint:errchkjson // strings cannot fail
	return &jsonrpc.Request{Method: "notifications/cancelled", Params: params}
}

// Ended ends the contexts of all handlers, ends Read, and has the SDK close its session, which waits for the handlers. The context of a handler
// that begins later is ended from its start.
func (s *session) Ended(cause error) {
	s.mu.Lock()
	ss := s.ss
	all := slices.Collect(maps.Values(s.incoming))
	s.mu.Unlock()
	for _, in := range all {
		in.ended.Store(&cause)
		in.cancelHandler() // before the SDK does it: the first one sets the cause
	}
	s.endReading()
	if ss != nil {
		go s.closeSDK(ss)
	}
}

// closeSDK waits until the SDK has closed its session. Then it deletes what the SDK has not answered: the program may keep the ServerSession,
// which refers to s.
func (s *session) closeSDK(ss *mcp.ServerSession) {
	_ = ss.Close() // ServerSession.Wait returns the error, too
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.incoming)
	s.unanswered = nil
}

// endReading makes Read return a cancellation of each call, and then io.EOF: not all versions of the SDK end the contexts of calls at io.EOF.
// It reports whether this was its first call.
func (s *session) endReading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.queue = nil
	for id := range s.calls {
		s.enqueue(cancellation(id, rejoin.ErrSessionEnded))
	}
	s.ended, s.calls, s.restoring = true, nil, nil
	s.ready.Broadcast()
	return true
}
