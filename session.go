package rejoin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/lazy"
	"github.com/rejoin-mcp/rejoin/internal/member"
)

// Session is one session with a client. The app sends to the client through it. Safe for concurrent use, also after its end.
type Session struct {
	srv            *Server
	engine         engine.Session
	ref            SessionRef
	description    unique.Handle[clientDescription] // sessions with the same client share it
	announcesTools atomic.Bool                      // the app has announced tools
	forwarded      atomic.Uint32                    // requests that came through other processes
	registered     bool                             // the server has it in its maps; guarded by the server's mutex, as the next two
	used           bool                             // its queue of evictable sessions: the client has sent something since initialize
	eviction       evictionEntry
	state          atomic.Pointer[func() []byte] // what SavedState returns; nil: nothing was saved
	record         *member.Record                // in the directory; nil: outside a cluster

	mu    sync.Mutex
	ctx   *lazy.Context // what context returns; nil: it was not called yet
	app   AppSession    // nil until App.Open has returned
	ended error         // what AppSession.Ended gets; nil: the session has not ended
}

// clientDescription is what a client says of itself in initialize, each as JSON; "": nothing.
type clientDescription struct{ client, capabilities string }

// ID returns what the client sends as Mcp-Session-Id. It is a secret: never log it.
func (s *Session) ID() string { return s.engine.ID() }

// Ref returns the name of the session for logs and admin routes.
func (s *Session) Ref() SessionRef { return s.ref }

// Principal returns the user that the session belongs to, as Config.Principal named it.
func (s *Session) Principal() string { return s.engine.Principal() }

// Version returns the negotiated protocol version, or "" until initialize was answered.
func (s *Session) Version() string { return s.engine.Version() }

// Logger returns the server's logger with the name of the session. An app uses it to tell the operator about this session.
func (s *Session) Logger() *slog.Logger { return s.srv.log.With("session", string(s.ref)) }

// Done returns a channel that is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.context().Done() }

// context returns a context that ends with the session. It is made at the first call: most sessions need none.
func (s *Session) context() *lazy.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		s.ctx = lazy.Ended(s.ended)
	}
	return s.ctx
}

// Notify sends a notification on the stream of the call that ctx belongs to. If ctx belongs to no call, or the call has ended, it sends on the
// standalone stream; use context.Background() to send there from inside a call. params are as for Handle.Notify.
//
// The progressToken of a notifications/progress is replaced by the same token as the client wrote it, because SDKs may write it in another
// way. A notifications/progress whose token is not a string or a number, or is over 1 KiB, is dropped.
//
// Errors include ErrFull (the client has so much to fetch that there is no room), ErrTooLarge and ErrSessionEnded. It is not an error that no
// client can ever read the notification.
func (s *Session) Notify(ctx context.Context, method string, params any) error {
	raw, err := marshalParams(params)
	if err != nil {
		return err
	}
	return s.notify(s.callOf(ctx), method, raw)
}

// SaveState saves what App.Open needs to continue the session in another process (Config.Cluster). Each call replaces what was saved. Do not call it
// concurrently.
//
// Save what a response promises during its call, before you give the response: with a cluster, Call.Reply waits until the directory has what was
// saved since the call began, for at most Config.StoreTimeout. If that fails, the client gets an error in place of the result, with the
// data.reason ReasonStore, and the state is written later. What was saved without a response is written soon after. Without a cluster only
// SavedState reads the state.
func (s *Session) SaveState(state []byte) error {
	return s.SaveStateFunc(func() []byte { return state })
}

// SaveStateFunc is SaveState for a state that changes often or is large. Instead of the state it gets a function, which is called when the state
// is needed, perhaps never. Call SaveStateFunc after each change, as you would call SaveState; the function may be the same. state returns
// what App.Open needs at that time, or nil if there is nothing of use. It is called from any goroutine, concurrently, and also after the end
// of the session. It must not wait for a tool or the client.
func (s *Session) SaveStateFunc(state func() []byte) error {
	if s.engine.Over() {
		return ErrSessionEnded
	}
	s.state.Store(&state)
	if s.record != nil {
		s.record.Changed()
	}
	return nil
}

// SavedState returns what SaveState saved last, or what the function of SaveStateFunc returns now, also after the end of the session. It is nil
// if nothing was saved. Do not change it. With it the app's side of a session can be opened again, in this process or another.
func (s *Session) SavedState() []byte {
	state := s.state.Load()
	if state == nil {
		return nil
	}
	return (*state)()
}

// End ends the session. For each request that it waits for, the client gets an error with the data.reason ReasonEnded. Contexts of tools end
// with an error that wraps ErrSessionEnded, and cause if that is not nil. AppSession.Ended gets the same error.
func (s *Session) End(cause error) {
	if cause != nil {
		s.srv.log.Info("rejoin: the app ended a session", "session", s.ref, "cause", cause)
		cause = fmt.Errorf("%w: %w", ErrSessionEnded, cause)
	}
	s.engine.End(core.Terminated, cause)
}

// end ends the session for a reason that does not come from the app.
func (s *Session) end(why core.Reason) { s.engine.End(why, nil) }

// callOf returns the call that ctx belongs to if it is a call of this session, else nil.
func (s *Session) callOf(ctx context.Context) *Call {
	if h := HandleFromContext(ctx); h.c != nil && h.c.s == s {
		return h.c
	}
	return nil
}

func (s *Session) notify(c *Call, method string, params json.RawMessage) error {
	if len(params) > engine.MaxEventBytes {
		return ErrTooLarge
	}
	var flags core.Flags
	if method == "notifications/progress" {
		flags = core.Progress
		var ok bool
		if params, ok = s.restoreToken(c, params); !ok {
			return nil
		}
	}
	return s.emit(c, flags, jsonrpc.AppendRequest(make([]byte, 0, len(method)+len(params)+48), nil, method, params))
}

// emit sends a notification that is encoded already.
func (s *Session) emit(c *Call, flags core.Flags, data []byte) error {
	if len(data) > engine.MaxEventBytes {
		return ErrTooLarge
	}
	return notifyError(s.engine.Emit(c.request(), flags, data))
}

// finishOpening completes the opening of the session: initialize was answered with that version, and the answer is about to be written. h is
// the header of that request. In a cluster the directory must know the session first. If it cannot, the session ends and the client is refused.
func (s *Session) finishOpening(version string, h http.Header) error {
	if v, ok := core.Find(version); ok {
		version = v.Name // the same string for all sessions, to save memory
	}
	polls := s.polls(version, h)
	if s.record != nil {
		if err := s.recordSession(version, polls); err != nil {
			s.srv.logDirectory(s, "a session could not be recorded, so it was not opened", err)
			s.end(core.StoreFailed)
			return ErrSessionEnded
		}
	}
	s.engine.Opened(version, polls)
	s.srv.enqueue(s)
	s.srv.stats.opened.Add(1)
	return nil
}

// closeStream disconnects the client of a stream.
func (s *Session) closeStream(id core.StreamID, retry time.Duration) error {
	return operationError(s.engine.Close(id, retry))
}

func (s *Session) clientInfo() json.RawMessage {
	if client := s.description.Value().client; client != "" {
		return json.RawMessage(client)
	}
	return nil
}

// setApp sets the app's side of the session. If the session has ended meanwhile, it tells the app and returns false.
func (s *Session) setApp(app AppSession) bool {
	s.mu.Lock()
	s.app = app
	cause := s.ended
	s.mu.Unlock()
	if cause != nil {
		s.callEnded(app, cause)
	}
	return cause == nil
}

// over returns what AppSession.Ended gets, or nil if the session has not ended.
func (s *Session) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// callEnded calls AppSession.Ended. It catches a panic, because no caller does: this may be a timer's goroutine.
func (s *Session) callEnded(app AppSession, cause error) {
	defer s.srv.recovered("AppSession.Ended", func() {})
	app.Ended(cause)
}

// host is a Session as the engine sees it: it implements engine.Host.
type host Session

var _ engine.Host = (*host)(nil)

// Cause returns what a call's context ends with.
func (h *host) Cause(why core.Reason) error { return causeOf(why) }

// Failure returns an error response.
func (h *host) Failure(id []byte, why core.Reason) []byte {
	f := failure(why)
	return jsonrpc.AppendError(nil, id, f.Code, f.Message, f.Data)
}

// Ended removes the session from its server and tells the app.
func (h *host) Ended(why core.Reason, cause error) {
	s := (*Session)(h)
	s.mu.Lock()
	app, ctx := s.app, s.ctx
	s.ended = cause
	s.mu.Unlock()
	if ctx != nil {
		ctx.Cancel(cause)
	}
	if s.record != nil && why != core.Moved {
		s.srv.node.noteEnded(s.record, why != core.Shutdown)
	}
	s.srv.remove(s)
	if why == core.Moved {
		s.srv.logMoved(s)
	}
	if app != nil { // nil: App.Open has not returned, and setApp will tell the app
		s.callEnded(app, cause)
	}
}

// Report logs what an operator should know, and counts it.
func (h *host) Report(e engine.Event) {
	s := (*Session)(h)
	switch e.Kind {
	case engine.NotResumable:
		s.srv.logNotResumable(s)
	case engine.Full:
		s.srv.logFull(s)
	case engine.Unsent:
		s.srv.logUnsent(s, e.Err)
	case engine.StoreFailed:
		s.srv.logStoreFailed(s, e.Err)
	case engine.StoreLost:
		s.srv.logStoreLost(s, s.ref.stream(e.Stream), e.Last, e.Err)
	case engine.Gap:
		s.srv.logGap(s, e.First, e.Last)
	case engine.Doubted:
		s.srv.logMissedPoll(s)
	case engine.HeldBack:
		s.srv.logHeldBack(s, e.Where)
	case engine.Panicked:
		s.srv.logPanic(e.Where, e.Value, e.Stack)
	}
}
