package core

import "time"

// sessionPhase says how far a session has come.
type sessionPhase uint8

const (
	phaseInitializing sessionPhase = iota // initialize is not answered yet
	phaseOpen
	phaseStopping // takes no new work; ends as soon as no request runs and no connection is left
	phaseEnded
)

// instant is a moment, as the time since the machine was made: small, comparable, and on the monotonic clock.
type instant = time.Duration

const never = instant(1<<63 - 1)

// standalone is the index of the standalone stream.
const standalone = int32(0)

// Machine is one session. The zero value is not ready; use New. It is not safe for concurrent use.
type Machine struct {
	*streamTable // nil while the session is idle

	cfg          *Config
	standaloneID StreamID
	phase        sessionPhase
	version      uint8 // place in Versions, counted from 1; 0: another, or none yet
	canPoll      bool  // the version, or a flag of Opened, says that the client polls
	trust        trust
	draining     bool
	final        bool // the standalone stream must have no reader any more
	onlyOpened   bool // nothing has happened since initialize

	rand       uint32 // of the current step
	conns      int32  // connections that have not ended
	running    int32  // request streams that run
	unanswered int32  // requests that are not answered, also those whose answer no client can read
	pings      int32  // pings among them
	base       time.Time
	now        instant // of the current step
	lastActive instant // last sign of life
	dueBack    instant // the latest moment at which a client was told to be back
	nextGet    instant // when the next GET would be due if they came evenly
}

// New returns a session whose initialize is to come as the first Post, with flag Initialize. cfg is shared and must not change. own is
// the id of the standalone stream.
func New(cfg *Config, own StreamID, now time.Time) Machine {
	return Machine{cfg: cfg, standaloneID: own, base: now, onlyOpened: true}
}

// Step takes one input, appends what must be done to out, in the order in which it must be done, and returns out. After its return the
// machine still refers to the strings of in and to In.Batch, and to nothing else that in points to. It writes only to members of In.Batch.
func (m *Machine) Step(now time.Time, in *In, out []Out) []Out {
	m.now, m.rand = max(now.Sub(m.base), m.now), in.Rand
	if m.phase == phaseEnded {
		return m.afterEnd(in, out)
	}
	if m.streamTable == nil && m.needsStreams(in) {
		m.makeStreamTable()
	}
	switch in.Op {
	case Tick:
		out = m.tick(out)
	case Opened:
		out = m.opened(in, out)
	case OpenFailed:
		out = m.endSession(OpenFailure, out)
	case Post:
		out = m.post(in, out)
	case Get:
		out = m.get(in, out)
	case Emit:
		out = m.emit(in, out)
	case Reply:
		out = m.reply(in, out)
	case Full:
		out = m.full(in, out)
	case Lost:
		out = m.lost(in, out)
	case Healed:
		m.healed(in)
	case Gap:
		out = m.gap(in, out)
	case Written:
		m.written(in)
	case Gone:
		out = m.gone(in, out)
	case Close:
		out = m.close(in, out)
	case Press:
		out = m.press(in, out)
	case Adjust:
		out = m.adjust(in, out)
	case Cancel:
		out = m.cancel(in, out)
	case Touch:
		m.lastActive = m.now
	case Delete:
		out = m.endSession(in.Reason, out)
	case Drain:
		out = m.drain(in, out)
	case HandOver:
		out = m.handOver(in, out)
	case Stop:
		out = m.stop(out)
	}
	if m.phase == phaseStopping && m.conns == 0 && m.running == 0 {
		out = m.endSession(Shutdown, out)
	}
	return out
}

// Deadline returns when Step(now, &In{Op: Tick}) is due; zero means never. It may be too early and is never too late. So a driver needs to
// set its timer anew only if Deadline is earlier than the time the timer is set to.
func (m *Machine) Deadline() time.Time {
	if m.phase == phaseEnded {
		return time.Time{}
	}
	at := m.idleAt()
	if m.streamTable != nil && len(m.timers) > 0 {
		at = min(at, m.streams[m.timers[0]].deadline)
	}
	if at == never {
		return time.Time{}
	}
	return m.base.Add(at)
}

// CanPoll reports whether the client polls, as far as is known. It is false before Opened.
func (m *Machine) CanPoll() bool { return m.trusted() }

// Running returns the number of requests that are not answered.
func (m *Machine) Running() int { return int(m.unanswered) }

// Busy reports whether a request is not answered or a connection has not ended.
func (m *Machine) Busy() bool { return m.unanswered > 0 || m.conns > 0 }

// IdleSince returns the time since which nothing has happened. A client that was told to stay away counts as idle only from the time when it
// is due back. ok is false while the session is Busy, while an ended stream was not fully written to a client, and after the session's end.
func (m *Machine) IdleSince() (at time.Time, ok bool) {
	return m.base.Add(max(m.lastActive, m.dueBack)), m.phase != phaseEnded && !m.Busy() && m.Unfetched() == 0
}

// Unfetched returns the number of ended request streams that were not fully written to a client yet.
func (m *Machine) Unfetched() int {
	if m.streamTable == nil {
		return 0
	}
	return m.unfetched.n
}

// opened opens the session. Unless a flag says whether the client can poll, the negotiated version decides. The header of a later request
// never does, because it may be missing.
func (m *Machine) opened(in *In, out []Out) []Out {
	if m.phase != phaseInitializing {
		return out
	}
	m.version = place(in.ID)
	v, _ := Find(in.ID)
	m.canPoll = (v.Polls || in.Flags&CanPoll != 0) && in.Flags&CannotPoll == 0
	m.phase = phaseOpen
	return out
}

// afterEnd answers inputs that come after the end of the session.
func (m *Machine) afterEnd(in *In, out []Out) []Out {
	switch in.Op {
	case Post, Get:
		return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: Deleted})
	case Close, Adjust:
		return append(out, Out{Do: Refuse, Reason: Ended})
	case Emit, Reply:
		return append(out, Out{Do: Discard, Reason: Ended})
	default:
		return out
	}
}
