package core

import "time"

// phase is the life of a session.
type phase uint8

const (
	provisional phase = iota // initialize is being answered
	open
	stopping // nothing new; over as soon as nothing runs and nobody reads
	over
)

// instant is a moment, as the time since the machine was made: small, comparable, and on the monotonic clock.
type instant = time.Duration

const never = instant(1<<63 - 1)

// standalone is the place of the session's own stream.
const standalone = int32(0)

// Machine is one session. The zero value is not ready; use New. Not safe for concurrent use.
type Machine struct {
	*work

	cfg      *Config
	own      StreamID // the standalone stream
	phase    phase
	polls    bool // the client can poll
	trust    trust
	draining bool
	final    bool // nobody stays on the standalone stream any more
	young    bool // nothing has happened but initialize

	rand    uint32 // of the step that is being taken
	conns   int32  // connections that have not ended
	running int32  // request streams that run
	pending int32  // requests that are not answered, whether anybody can read the answer or not
	pings   int32  // of those
	base    time.Time
	now     instant // of the step that is being taken
	active  instant // last sign of life
	dueBack instant // the latest moment at which a client was told to be back
	getTime instant // when the next GET would be due if they came evenly
}

// New returns a session whose initialize is to come as the first Post, with flag Initialize. cfg is shared, and must not change; own
// names the standalone stream.
func New(cfg *Config, own StreamID, now time.Time) Machine {
	return Machine{cfg: cfg, own: own, base: now, young: true}
}

// Step takes one input, appends what must be done to out, in the order in which it must be done, and returns out.
// It keeps nothing that in points to, except the strings and In.Batch, and changes nothing of it but the members of that.
func (m *Machine) Step(now time.Time, in *In, out []Out) []Out {
	m.now, m.rand = max(now.Sub(m.base), m.now), in.Rand
	if m.phase == over {
		return m.afterEnd(in, out)
	}
	if m.work == nil && !m.sleepsThrough(in) {
		m.unfold()
	}
	switch in.Op {
	case Tick:
		out = m.tick(out)
	case Opened:
		out = m.opened(in, out)
	case OpenFailed:
		out = m.end(OpenFailure, out)
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
		out = m.letGo(in, out)
	case Press:
		out = m.press(in, out)
	case Adjust:
		out = m.adjust(in, out)
	case Cancel:
		out = m.cancel(in, out)
	case Touch:
		m.active = m.now
	case Delete:
		out = m.end(in.Reason, out)
	case Drain:
		out = m.drain(in, out)
	case Stop:
		out = m.stop(out)
	}
	if m.phase == stopping && m.conns == 0 && m.running == 0 {
		out = m.end(Shutdown, out)
	}
	return out
}

// Deadline is when Step(now, In{Op: Tick}) is due; zero: never. It may be early, never late: drivers re-arm a timer only if it
// comes sooner than the armed one.
func (m *Machine) Deadline() time.Time {
	if m.phase == over {
		return time.Time{}
	}
	at := m.idleAt()
	if m.work != nil && len(m.timers) > 0 {
		at = min(at, m.streams[m.timers[0]].deadline)
	}
	if at == never {
		return time.Time{}
	}
	return m.base.Add(at)
}

// CanPoll reports whether the client polls, as far as is known. False until Opened.
func (m *Machine) CanPoll() bool { return m.trusted() }

// Running counts the requests that are not answered.
func (m *Machine) Running() int { return int(m.pending) }

// Busy reports whether a request runs or a connection is open.
func (m *Machine) Busy() bool { return m.pending > 0 || m.conns > 0 }

// IdleSince tells since when nothing has happened. A client that was told to stay away is idle from when it was due back. ok is false where
// a request runs, a connection is open, or a stream that has ended was not written out yet.
func (m *Machine) IdleSince() (at time.Time, ok bool) {
	return m.base.Add(max(m.active, m.dueBack)), m.phase != over && !m.Busy() && m.Unfetched() == 0
}

// Unfetched counts the ended request streams that were not written out to a client yet.
func (m *Machine) Unfetched() int {
	if m.work == nil {
		return 0
	}
	return m.unread.n
}

// opened makes the session a real one. The negotiated version decides whether the client can poll, where it is not known better; never the
// header of a later request, which may be missing.
func (m *Machine) opened(in *In, out []Out) []Out {
	if m.phase != provisional {
		return out
	}
	v, _ := Find(in.ID)
	m.polls = (v.Polls || in.Flags&CanPoll != 0) && in.Flags&CannotPoll == 0
	m.phase = open
	return out
}

// afterEnd answers what comes too late.
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
