package engine

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/safe"
)

// Session is one session: its machine, its streams and connections, and the lock that guards them. Init makes it ready. Safe for concurrent
// use, also after its end. It must not be copied.
type Session struct {
	engine        *Engine
	host          Host
	id, principal string
	created       time.Time
	heard         atomic.Bool // the client has sent something after initialize
	lastConn      core.ConnID // guarded by mu; here it fits into a gap
	owner         *Owner      // nil: outside a cluster

	mu         sync.Mutex
	ready      bool        // initialize was answered with a result
	over       core.Reason // why it has ended; NoReason: it has not
	stopped    bool        // Stop was called
	lastStream uint32
	m          core.Machine
	outs       []core.Out // scratch
	streams    []*stream  // by the machine's index
	conns      []*Conn
	timer      *time.Timer
	armed      time.Duration // when it fires, in the session's life; 0: it does not
	asks       map[string]*ask
	version    string        // negotiated
	active     time.Duration // when something last happened, in the session's life
	stale      *tally        // nil: no request has been stale yet
	older      *[]olderLog   // standalone streams of earlier processes; nil: there are none. Never changed
}

// Identity is what a session is known by.
type Identity struct {
	ID        string // a secret
	Principal string
	Created   time.Time
	Owner     *Owner // nil: outside a cluster
}

// Init makes a session, before anything else is called.
func (s *Session) Init(e *Engine, host Host, who Identity) {
	s.engine, s.host, s.id, s.principal, s.created, s.owner = e, host, who.ID, who.Principal, who.Created, who.Owner
	own := NewStandalone()
	s.m = core.New(&e.cfg.Machine, own, who.Created)
	s.streams = []*stream{{id: own}}
}

// ID is what the client names the session by: a secret.
func (s *Session) ID() string { return s.id }

// Principal is the user that the session belongs to.
func (s *Session) Principal() string { return s.principal }

// Created is when the session was made.
func (s *Session) Created() time.Time { return s.created }

// Opened makes the session a real one: initialize was answered with that version, and the answer is about to be written.
func (s *Session) Opened(version string, polls bool) {
	in := core.In{Op: core.Opened, ID: version, Flags: core.CannotPoll}
	if polls {
		in.Flags = core.CanPoll
	}
	var p pass
	s.mu.Lock()
	s.version, s.ready = version, true
	s.step(&in, &p)
	s.mu.Unlock()
	s.finish(&p)
}

// Version is the negotiated protocol version, "" until initialize was answered.
func (s *Session) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Polls reports whether the client may be detached when a policy or a tool asks for it.
func (s *Session) Polls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.CanPoll()
}

// Moved reports whether the session has ended here, and goes on in another process: one that owns it, or one that may adopt it now.
func (s *Session) Moved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved()
}

// moved is Moved. Under the lock.
func (s *Session) moved() bool { return s.over == core.Moved || s.outlives(s.over) }

// refusal returns why a connection is refused. To the machine every session that has ended is deleted.
func (s *Session) refusal(why core.Reason) core.Reason {
	if why == core.Deleted && s.Moved() {
		return core.Moved
	}
	return why
}

// Over reports whether the session has ended.
func (s *Session) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over != core.NoReason
}

// Heard notes that the client has sent something after initialize, and reports whether that is the first time.
func (s *Session) Heard() (first bool) { return !s.heard.Load() && s.heard.CompareAndSwap(false, true) }

// HasHeard reports whether the client has sent anything after initialize.
func (s *Session) HasHeard() bool { return s.heard.Load() }

// Touch notes that the client has sent something.
func (s *Session) Touch() { s.do(core.In{Op: core.Touch}) }

// Cancel is the client's cancellation of a request, by the key of its id.
func (s *Session) Cancel(key string) { s.do(core.In{Op: core.Cancel, Key: key}) }

// End ends the session. cause is what its contexts end with; nil: what the host says of the reason.
func (s *Session) End(why core.Reason, cause error) {
	p := pass{cause: cause}
	s.take(core.In{Op: core.Delete, Reason: why, Rand: spread()}, &p)
}

// EndIdle ends the session to make room for another: if it has been idle for that long, or if it is idle and its client has sent nothing since
// initialize. It returns true if the session has ended, now or before. Otherwise it returns the time since which the session may have been
// idle. In an idle session no request runs, there is no connection, no result waits to be fetched, and the app does not wait for an answer.
func (s *Session) EndIdle(idle time.Duration) (since time.Time, ended bool) {
	var p pass
	s.mu.Lock()
	if s.over == core.NoReason {
		since, is := s.m.IdleSince()
		now := time.Now()
		if !is || len(s.asks) > 0 {
			since = now
		}
		if !is || len(s.asks) > 0 || s.heard.Load() && now.Sub(since) < idle {
			s.mu.Unlock()
			return since, false
		}
	}
	s.step(&core.In{Op: core.Delete, Reason: core.Idle}, &p)
	s.mu.Unlock()
	s.finish(&p)
	return time.Time{}, true
}

// Close detaches the client of a stream: it is told to come back after retry (0: the policy's). It returns why it could not.
func (s *Session) Close(stream core.StreamID, retry time.Duration) core.Reason {
	why := s.do(core.In{Op: core.Close, Stream: stream, Dur: retry, Rand: spread()})
	if why == core.NotResumable {
		s.host.Report(Event{Kind: NotResumable})
	}
	return why
}

// Standalone names the session's own stream.
func (s *Session) Standalone() core.StreamID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Standalone()
}

// Adjust changes the policy of a stream. It returns why it could not.
func (s *Session) Adjust(stream core.StreamID, policy core.Policy) core.Reason {
	return s.do(core.In{Op: core.Adjust, Stream: stream, Policy: &policy})
}

// Drain refuses new work. final: nothing runs any more, so the standalone stream ends even if its client cannot poll.
func (s *Session) Drain(final bool) {
	in := core.In{Op: core.Drain, Rand: spread()}
	if final {
		in.Flags = core.Final
	}
	s.do(in)
}

// Stop answers everything that runs with an error, and ends the session as soon as no connection reads.
func (s *Session) Stop() { s.stop(true) }

// StopIdle is Stop if nothing runs. More calls do nothing, so they do not tell the drain, which would call it again.
func (s *Session) StopIdle() { s.stop(false) }

func (s *Session) stop(anyway bool) {
	var p pass
	s.mu.Lock()
	if s.stopped || !anyway && s.m.Running() > 0 {
		s.mu.Unlock()
		return
	}
	s.stopped = true
	s.step(&core.In{Op: core.Stop, Rand: spread()}, &p)
	s.mu.Unlock()
	s.finish(&p)
}

// do takes one step and does what it asks for. It returns why the machine refused, if it did.
func (s *Session) do(in core.In) core.Reason {
	var p pass
	s.take(in, &p)
	return p.refused
}

// take takes one step, and does what it asks for.
func (s *Session) take(in core.In, p *pass) {
	s.mu.Lock()
	s.step(&in, p)
	s.mu.Unlock()
	s.finish(p)
}

// spread is a random number that spreads the retries of clients.
func spread() uint32 { return rand.Uint32() } //nolint:gosec // nothing secret

// trim gives back what a session that does nothing has no use for. The next request takes it again. Under the lock.
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

// recovered is deferred around code that is not ours.
func (s *Session) recovered(where string, then func()) {
	if v := recover(); v != nil {
		s.host.Report(Event{Kind: Panicked, Where: where, Value: v, Stack: safe.Stack()})
		then()
	}
}
