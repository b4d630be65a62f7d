package rejoin

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Session is the app's way to the client. Safe for concurrent use, also after its end.
type Session struct {
	srv       *Server
	id        string
	ref       Ref
	principal string
	created   time.Time
	client    string      // clientInfo of initialize, JSON; "": it has none
	offers    string      // capabilities of initialize, likewise
	app       AppSession  // set when App.Open has returned, before a request can come
	spoke     atomic.Bool // the client has come back after initialize
	place     place       // among those that may make room; guarded by the server's mutex

	mu         sync.Mutex
	m          core.Machine
	outs       []core.Out // scratch
	streams    []*stream  // by the machine's index
	conns      []*conn
	lastConn   core.ConnID
	lastStream uint32
	timer      *time.Timer
	armed      time.Time // when it fires; zero: it does not
	asks       map[string]*ask
	version    string
	active     time.Time
	ready      bool // initialize was answered with a result
	tools      bool // and announced tools
	over       bool
	cause      error
	life       context.Context // ends with the session; nil until somebody asks for it
	endLife    context.CancelCauseFunc
	stale      *tally        // nil: no call has been so yet
	state      func() []byte // what SavedState returns; nil: nothing was saved
}

// ID is what the client sends as Mcp-Session-Id: a secret, never log it.
func (s *Session) ID() string { return s.id }

// Ref names the session in logs.
func (s *Session) Ref() Ref { return s.ref }

// Principal is the user that the session belongs to.
func (s *Session) Principal() string { return s.principal }

// Version is the negotiated protocol version, "" until initialize was answered.
func (s *Session) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Logger is the server's, for what an app has to say to the operator about this session.
func (s *Session) Logger() *slog.Logger { return s.srv.log.With("session", string(s.ref)) }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.lasting().Done() }

// lasting is a context that ends with the session, with its cause. It has no values.
func (s *Session) lasting() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		s.life, s.endLife = context.WithCancelCause(context.Background())
		if s.over {
			s.endLife(s.cause)
		}
	}
	return s.life
}

// lifeOver ends that context, without the lock: it runs what was registered with context.AfterFunc.
func (s *Session) lifeOver() {
	s.mu.Lock()
	end, cause := s.endLife, s.cause
	s.mu.Unlock()
	if end != nil {
		end(cause)
	}
}

// Notify sends on the stream of the call that ctx belongs to, else (no call, or an ended one) on the standalone stream: with
// context.Background() there from within a call too. params as with Handle.Notify.
//
// A notifications/progress gets its progressToken as the client spelt it, whatever an SDK has made of it. One with a token that is no string
// or number, or is longer than 1 KiB, goes nowhere.
//
// ErrFull: the client has left so much unfetched that there is no room. ErrSessionEnded. A notification that no client can ever
// read is no error.
func (s *Session) Notify(ctx context.Context, method string, params any) error {
	raw, err := marshalParams(params)
	if err != nil {
		return err
	}
	return s.notify(s.callOf(ctx), method, raw)
}

// Ask sends a request likewise. reply runs once, on another goroutine: with the answer, the client's *Error, or why none can come, such as
// ErrNotOffered; that may be before Ask has returned. Ask never blocks. cancel withdraws the question with notifications/cancelled; reply does not run after it.
func (s *Session) Ask(ctx context.Context, method string, params json.RawMessage, reply func(json.RawMessage, error)) (cancel func(reason string)) {
	return s.ask(s.callOf(ctx), method, params, reply)
}

// SaveState writes down what Open needs to go on with the session in another process. Each call replaces what was there: calls
// must come one at a time, and what a response promises must be saved before it is given. Only SavedState reads it yet: until
// there is a store that processes share, a session ends with its process.
func (s *Session) SaveState(state []byte) error {
	return s.SaveStateFunc(func() []byte { return state })
}

// SaveStateFunc is SaveState for a state that changes often or is large: it is asked for when it is needed, which may be never, instead of
// being written at each change. Call it after each change as you would SaveState, with the same function if you like. state returns what
// Open needs by then, or nil if there is nothing that it could use. It is called from any goroutine, by several at once, and also after the
// session's end; it must not wait for a tool or the client.
func (s *Session) SaveStateFunc(state func() []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return ErrSessionEnded
	}
	s.state = state
	return nil
}

// SavedState is what SaveState last wrote, or what the function of SaveStateFunc returns now, also after the session's end; nil: nothing. Do not change it. With it the app's side of a
// session can be opened anew, in this process or another.
func (s *Session) SavedState() []byte {
	s.mu.Lock()
	state := s.state
	s.mu.Unlock()
	if state == nil {
		return nil
	}
	return state()
}

// End ends the session from the app's side. Clients get an error whose data.reason is "ended" for each request that they wait for, and
// tools ErrSessionEnded as the cause of their contexts.
func (s *Session) End(cause error) {
	if cause != nil {
		s.srv.log.Info("rejoin: the app ended a session", "session", s.ref, "cause", cause)
	}
	s.end(core.Terminated)
}

// callOf returns the call that ctx belongs to, if it is one of this session.
func (s *Session) callOf(ctx context.Context) *Call {
	if h := HandleFromContext(ctx); h.c != nil && h.c.s == s {
		return h.c
	}
	return nil
}

func (s *Session) notify(c *Call, method string, params json.RawMessage) error {
	if len(params) > maxEventBytes {
		return ErrTooLarge
	}
	var flags core.Flags
	if method == "notifications/progress" {
		flags = core.Progress
		var ok bool
		if params, ok = s.ownToken(c, params); !ok {
			return nil
		}
	}
	return s.emit(c, flags, jsonrpc.AppendRequest(make([]byte, 0, len(method)+len(params)+48), nil, method, params))
}

// emit sends a notification that is written down already.
func (s *Session) emit(c *Call, flags core.Flags, data []byte) error {
	if len(data) > maxEventBytes {
		return ErrTooLarge
	}
	m := message{op: core.Emit, flags: flags, data: data}
	if c != nil {
		m.stream = c.stream
		if c.task {
			m.flags |= core.Task
		}
	}
	return s.send(m)
}

// opened makes the session a real one: initialize was answered with that version, and the answer is about to be written.
// The client may have said more of itself in the header of that request.
func (s *Session) opened(version string, h http.Header) {
	if v, ok := core.Find(version); ok {
		version = v.Name // the same for all sessions
	}
	client := s.clientOf(h)
	client.Protocol = version
	in := core.In{Op: core.Opened, ID: version, Flags: core.CannotPoll}
	if s.canPoll(client) {
		in.Flags = core.CanPoll
	}
	var p pass
	s.mu.Lock()
	s.version, s.ready = version, true
	s.step(&in, &p)
	s.mu.Unlock()
	s.finish(&p)
	s.srv.list(s)
	s.srv.stats.opened.Add(1)
}

// standalone is the name of the session's own stream.
func (s *Session) standalone() core.StreamID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Standalone()
}

func (s *Session) clientInfo() json.RawMessage {
	if s.client == "" {
		return nil
	}
	return json.RawMessage(s.client)
}

// trim gives back what a session that does nothing has no use for. It is not for each call: the next one takes it anew. Under the lock.
func (s *Session) trim() {
	if len(s.conns) > 0 || s.m.Running() > 0 {
		return
	}
	s.outs, s.conns = nil, nil
	last := len(s.streams)
	for last > 0 && s.streams[last-1] == nil {
		last--
	}
	if last < cap(s.streams) {
		s.streams = append(make([]*stream, 0, last), s.streams[:last]...)
	}
}

// end ends the session.
func (s *Session) end(why core.Reason) {
	_ = s.do(core.In{Op: core.Delete, Reason: why, Rand: rand.Uint32()}) //nolint:gosec // spreads retries
}

// closeStream lets the client of a stream go.
func (s *Session) closeStream(id core.StreamID, retry time.Duration) error {
	return s.do(core.In{Op: core.Close, Stream: id, Dur: retry, Rand: rand.Uint32()}) //nolint:gosec // spreads retries
}

// do takes one step, does what it asks for and returns why it was refused, if it was.
func (s *Session) do(in core.In) error {
	var p pass
	s.mu.Lock()
	s.step(&in, &p)
	s.mu.Unlock()
	s.finish(&p)
	switch p.refused {
	case core.NoReason:
		return nil
	case core.NotResumable:
		s.srv.logNotResumable(s)
		return ErrNotResumable
	default:
		return ErrEnded
	}
}
