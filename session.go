package rejoin

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"sync"
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
	client    string     // clientInfo of initialize, JSON; "": it has none
	app       AppSession // set when App.Open has returned, before a request can come

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
	over       bool
	cause      error
	done       chan struct{} // made when somebody asks for it
	state      []byte
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
func (s *Session) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.over {
			close(s.done)
		}
	}
	return s.done
}

// Notify sends on the stream of the call that ctx belongs to, else (no call, or an ended one) on the standalone stream. params
// must be valid JSON; nil: none.
//
// ErrFull: the client has left so much unfetched that there is no room. ErrSessionEnded. A notification that no client can ever
// read is no error.
func (s *Session) Notify(ctx context.Context, method string, params json.RawMessage) error {
	return s.notify(s.callOf(ctx), method, params)
}

// Ask sends a request likewise. reply runs once, on another goroutine: with the answer, the client's *Error, or why none can
// come; that may be before Ask has returned. Ask never blocks. cancel withdraws the question with notifications/cancelled; reply does not run after it.
func (s *Session) Ask(ctx context.Context, method string, params json.RawMessage, reply func(json.RawMessage, error)) (cancel func(reason string)) {
	return s.ask(s.callOf(ctx), method, params, reply)
}

// SaveState writes down what Open needs to go on with the session in another process. Each call replaces what was there: calls
// must come one at a time, and what a response promises must be saved before it is given. Only SavedState reads it yet: until
// there is a store that processes share, a session ends with its process.
func (s *Session) SaveState(state []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return ErrSessionEnded
	}
	s.state = state
	return nil
}

// SavedState is what SaveState last wrote, also after the session's end; nil: nothing. Do not change it. With it the app's side of a
// session can be opened anew, in this process or another.
func (s *Session) SavedState() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// End ends the session from the app's side.
func (s *Session) End(cause error) {
	if cause != nil {
		s.srv.log.Info("rejoin: the app ended a session", "session", s.ref, "cause", cause)
	}
	s.end(core.Deleted)
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

// isReady reports whether the client may use the session.
func (s *Session) isReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// opened makes the session a real one: initialize was answered with that version, and the answer is about to be written.
func (s *Session) opened(version string) {
	if v, ok := core.Find(version); ok {
		version = v.Name // the same for all sessions
	}
	in := core.In{Op: core.Opened, ID: version}
	if s.canPoll() {
		in.Flags |= core.CanPoll
	}
	s.mu.Lock()
	s.version, s.ready = version, true
	s.mu.Unlock()
	_ = s.do(in) // nothing of it can be refused
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

// canPoll asks the configuration. Where it panics, the answer to initialize is on its way already, and goes on.
func (s *Session) canPoll() bool {
	defer s.srv.recovered("Config.CanPoll", func() {})
	can := s.srv.cfg.CanPoll
	return can != nil && can(s.clientInfo())
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
func (s *Session) end(why core.Reason) { _ = s.do(core.In{Op: core.Delete, Reason: why}) }

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
