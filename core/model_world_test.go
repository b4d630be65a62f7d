package core

import (
	"slices"
	"testing"
	"time"
)

// world is a driver, its store, an app and some clients, as simple as they can be: a stream is a list of messages, and a
// connection remembers what its client got. It obeys the machine's outputs, and fails where they contradict the lists. What it
// expects of an input is in model_rules_test.go.
type world struct {
	testing.TB

	src   source
	seed  uint64
	trace []stepTaken

	m                Machine
	now              time.Time
	polls, off       bool // off: no standalone stream
	idle             time.Duration
	policy           Policy
	maxInFlight      int
	maxEnded         int
	remember         int
	idBytes          int
	draining         bool
	final, over      bool
	healed           bool // a store has recovered while time passed
	active, dueBack  time.Duration
	standalone       *log
	older            []*log // standalone streams of earlier processes
	standalones      int
	logs, kept       []*log // kept: not dropped
	byID             map[StreamID]*log
	conns, live      []*conn // live: not gone
	cursors          []cursor
	remembered       []*log // dropped, and remembered
	ranks            int
	inflight         map[string]*request
	primers          map[primerID]bool
	messages, stream int

	clientTrust

	message  int   // of the Emit or Reply that is being stepped
	want     *log  // where it belongs
	busy     bool  // what was deferred is being stepped
	deferred []In  // what Release and Fail asked for
	later    []int // the messages of those
}

type stepTaken struct {
	at   time.Duration
	in   In
	outs []Out
}

type primerID struct {
	stream     StreamID
	seq, nonce uint64
}

// log is one stream.
type log struct {
	id       StreamID
	index    int32
	msgs     []int
	pending  bool // the last one is being appended
	response bool // and is a response
	trimmed  int  // so many of the first ones were dropped
	lost     int  // from here on without ids; -1: none
	acked    int  // the latest cursor that a client came with
	sent     int  // what was reported as written

	requests  []*request
	batch     bool
	policy    Policy
	json      bool
	buffered  bool
	undecided bool
	sse       bool // a head was ordered
	ended     bool
	cancelled bool
	stranded  bool
	dropped   bool
	forgotten bool
	read      bool // ended, and written out
	rank      int  // since when it is ended, or read
	failing   bool
	poll      pollState
	known     bool // an id was reported as written, or shown
	restored  bool // it comes from another process
	orphaned  bool // and had not ended there

	reader, closing *conn
	retry           time.Duration // what the client was told last
	empties         int
	posted, endedAt time.Duration
	dueBack         time.Duration
}

// request is one request. seq is the place of its response, 0 if there is none.
type request struct {
	id     string // as its POST spelt it
	value  string
	log    *log
	seq    int
	state  answerState
	wanted int // the message that is held
	ping   bool
}

// cursor is an event id that a client was given, with all that it had got of the stream by then, from base on.
type cursor struct {
	log  *log
	seq  int
	base int
	got  []int
	hole bool // it was told of an error instead, or of a gap
}

// conn is one connection.
type conn struct {
	id      ConnID
	log     *log
	since   time.Duration
	limit   time.Duration // it is cut after so long
	asked   *cursor
	fresh   bool
	noflush bool
	poll    bool
	chain   []part // what it reads before its stream
	chained bool   // it had to
	brought bool   // it has written some of that
	late    []Out  // errors that it writes before it ends
	cut     bool   // its time is over, or it cannot read on

	reported int // so far it is known to have been written

	head, json, refused, gone bool
	empty                     bool // nothing to read: only errors
	primer                    bool // ordered, and not yet written
	end                       *Out
	base, pos, from           int
	got                       []int
	hole                      bool
	unnamed                   bool // the last event that it wrote had no id
	reason                    Reason
}

// part is what a connection reads of an older standalone stream.
type part struct {
	log       *log
	pos, last int
}

func newWorld(t testing.TB, src source) *world {
	w := &world{
		TB: t, src: src, now: start, byID: map[StreamID]*log{}, inflight: map[string]*request{}, primers: map[primerID]bool{},
	}
	off := func(d time.Duration) time.Duration { return []time.Duration{d, d, -1}[w.pick(3)] }
	w.polls, w.off = w.pick(4) > 0, w.pick(8) == 0
	w.idle = off(30 * time.Minute)
	w.policy = Policy{
		Mode: []Mode{Auto, Auto, SSE, JSON}[w.pick(4)], StreamAfter: off(100 * time.Millisecond), CloseAfter: off(20 * time.Second),
		Retry: time.Second, RetryMax: 30 * time.Second, AbandonAfter: off(time.Minute), MaxRuntime: off(10 * time.Minute), Retain: 5 * time.Minute,
	}
	w.maxInFlight, w.maxEnded, w.remember = []int{0, 5}[w.pick(2)], []int{0, 3}[w.pick(2)], []int{2, 1 << 20}[w.pick(2)]
	w.idBytes = []int{0, 4, 110}[w.pick(3)]
	id := streamID("S")
	w.m = New(w.config(), id, w.now)
	w.standalone = &log{id: id, policy: w.policy, lost: -1}
	w.byID[id] = w.standalone
	w.logs, w.kept = []*log{w.standalone}, []*log{w.standalone}
	for _, in := range []In{
		{Op: Post, Flags: Initialize, Stream: streamID("I"), Conn: 1 << 30, ID: "0", Policy: &w.policy},
		{Op: Opened, ID: map[bool]string{true: "2025-11-25", false: "2025-03-26"}[w.polls]},
		{Op: Reply, Stream: streamID("I"), ID: "0"},
		{Op: Gone, Stream: streamID("I"), Conn: 1 << 30},
	} {
		w.m.Step(w.now, &in, nil)
	}
	return w
}

func (w *world) config() *Config {
	return &Config{
		Policy: w.policy, SessionIdleTTL: w.idle, MaxInFlight: w.maxInFlight, MaxEnded: w.maxEnded, Remember: w.remember, IDBytes: w.idBytes,
		NoStandalone: w.off,
	}
}

func (w *world) pick(n int) int { return w.src.pick(n) }

// at is the time that has passed.
func (w *world) at() time.Duration { return w.now.Sub(start) }

// Fatalf tells how it came to this.
func (w *world) Fatalf(format string, args ...any) {
	w.Helper()
	for _, s := range w.trace[max(0, len(w.trace)-60):] {
		w.Logf("%v %s", s.at, showIn(s.in))
		for _, o := range s.outs {
			w.Logf("    %s", show(o))
		}
	}
	w.Logf("seed %d, %d steps, after %v", w.seed, len(w.trace), w.at())
	w.TB.Fatalf(format, args...)
}

func (w *world) must(ok bool, what string, args ...any) {
	if !ok {
		w.Helper()
		w.Fatalf(what, args...)
	}
}

// step steps the machine, obeys, and then steps what the outputs asked for.
func (w *world) step(in In) []Out {
	in.Rand = uint32(w.pick(256)) << 24
	outs := w.m.Step(w.now, &in, nil)
	w.trace = append(w.trace, stepTaken{w.at(), in, outs})
	check(w, &w.m)
	for _, o := range outs {
		w.must(!w.over, "nothing comes after the end of the session")
		w.obey(in, o)
	}
	w.compare()
	if w.busy {
		return outs
	}
	for w.busy = true; len(w.deferred) > 0 && !w.over; {
		in, msg := w.deferred[0], w.later[0]
		w.deferred, w.later = w.deferred[1:], w.later[1:]
		l := w.byID[in.Stream]
		for _, r := range l.requests {
			if r.id == in.ID {
				w.replyWith(l, r, msg)
			}
		}
	}
	w.busy = false
	return outs
}

// compare checks what the machine says of itself with the lists.
func (w *world) compare() {
	if w.over {
		return
	}
	running, unfetched := 0, 0
	for _, c := range w.live {
		w.must(c.log == nil || c.refused || c.json || c.end != nil || c.log.reader == c, "at most one connection reads a stream")
	}
	for _, l := range w.kept {
		info := w.m.Inspect(l.index)
		w.must(info.State == w.state(l) && (l.stranded || int(info.Seq) == len(l.msgs)), "a stream is where it says")
		if l == w.standalone {
			continue
		}
		if !l.ended {
			n, _ := l.unanswered()
			running += n
		} else if l.sent < len(l.msgs) {
			unfetched++
		}
	}
	w.must(len(w.live) == int(w.m.conns), "connections are counted")
	w.must(running == w.m.Running(), "requests that run are counted")
	w.must(unfetched == w.m.Unfetched(), "streams that were not fetched are counted")
	due, at := w.due(), never
	if d := w.m.Deadline(); !d.IsZero() {
		at = d.Sub(start)
	}
	if due != at {
		w.Fatalf("the next thing is due at %v, the machine says %v", due, at)
	}
}

// obey does what an output says.
func (w *world) obey(in In, o Out) {
	l := w.byID[o.Stream]
	if l != nil && o.Index >= 0 && o.Do != Start {
		w.must(!l.dropped, "the stream is still there")
		w.must(l.index == o.Index, "the stream is where it was")
	}
	var c *conn
	if o.Conn != 0 {
		c = w.conns[o.Conn-1]
		w.must(!c.gone, "the connection is still there")
	}
	switch o.Do {
	case Start:
		w.start(in, o)
	case Attach:
		w.attach(c, l, o)
	case Head:
		w.must(!c.head && !c.json && !c.refused && c.end == nil, "the head comes first, and once")
		c.head = true
		if c.log != nil {
			c.log.undecided = false
		}
		if o.Dur > 0 && !c.empty {
			l.empties++
		}
	case Primer:
		id := primerID{o.Stream, o.Seq, o.Nonce}
		w.must(w.polls && c.head && !c.primer && c.end == nil, "a primer comes after the head, once, and only for those who know it")
		w.must(!w.primers[id], "an id is never used again")
		at := c.pos
		if l != c.log { // the cursor again
			w.must(o.Index == -1 && slices.Contains(w.older, l) && c.asked.log == l, "the name of a primer is that of its stream, or of the cursor")
			at = c.asked.seq
		}
		w.must(int(o.Seq) == at, "a primer has the position where its connection starts")
		w.must(o.Dur >= time.Millisecond, "a primer carries a retry")
		w.primers[id] = true
		c.primer = true
		if !c.empty {
			c.log.retry, c.log.sse = o.Dur, true
		}
	case Comment:
		w.must(!w.polls && c.head && c.end == nil, "a comment is for those who know no primer")
		if !c.empty {
			l.retry, l.sse = 0, true
		}
	case Record:
		w.record(in, l, o)
	case Hold:
		w.must(l.undecided && len(l.requests) > 1, "only what may still be an array is held")
	case Release:
		w.must(!l.undecided, "what is released can be recorded")
		for _, r := range l.requests {
			if r.state == held {
				r.state = awaited
				w.deferred = append(w.deferred, In{Op: Reply, Stream: l.id, ID: r.id})
				w.later = append(w.later, r.wanted)
			}
		}
	case AnswerJSON:
		w.must(!c.head && l.undecided && l.reader == c, "one JSON value instead of a stream")
		for _, r := range l.requests {
			w.done(r)
		}
		c.json, l.undecided, l.ended, l.reader = true, false, true, nil
		w.active = w.at()
	case End:
		w.ordered(in, c, l, o)
	case Refuse:
		if c != nil {
			w.must(!c.head && !c.json && !c.refused, "a connection is refused instead of anything else")
			c.refused, c.reason = true, o.Reason
			if o.Reason == NothingLeft && c.asked != nil {
				w.cameBack(c.asked.log)
			}
			if c.log != nil && c.log.reader == c {
				c.log.reader = nil
			}
		}
	case Expire:
		w.expire(c, l, o)
	case Older:
		w.readOlder(c, l, o)
	case Discard:
	case CancelApp:
		w.must(in.Op != Gone && in.Op != Get && in.Op != Written, "neither a disconnect nor a resume cancels")
		w.must(slices.ContainsFunc(l.requests, func(r *request) bool { return r.id == o.ID && r.state != held }), "a request that runs")
	case Fail:
		w.checkFail(in, l, o)
		l.failing = true
		w.deferred = append(w.deferred, In{Op: Reply, Stream: l.id, ID: o.ID})
		w.messages++
		w.later = append(w.later, w.messages)
	case Strand:
		w.must(!l.known && !l.stranded && !l.ended, "only who was given no id cannot come back")
		l.stranded = true
		for _, r := range l.requests {
			if r.state == held {
				w.done(r)
			}
		}
	case Doubt:
		w.must(in.Op == Tick && w.polls && !w.proven, "only who has never come back is doubted")
		w.doubted = true
	case Yield:
		w.must(in.Op == Press && l != w.standalone && l.reader != nil && !w.resumable(l), "only who cannot be let go need not acknowledge")
		w.must(int(o.Seq) == l.reader.reported && l.reader.reported > l.reader.from, "and only what was written to it")
		l.acked = max(l.acked, int(o.Seq))
	case DropLog:
		w.drop(in, l)
	case EndSession:
		w.over = true
		for _, c := range w.conns {
			w.must(c.gone || c.refused || c.json || c.end != nil, "every connection was told to end")
		}
	default:
		w.Fatalf("unknown output %s", show(o))
	}
}
