package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bench is a driver that obeys nothing, and gives names to what it makes.
type bench struct {
	m      Machine
	now    time.Time
	out    []Out
	policy Policy
	stream StreamID
	conn   ConnID
	nonce  uint64
}

// newBench returns an open session in which each thing has happened before, so that nothing has to grow any more.
func newBench() *bench {
	b := &bench{now: start, policy: Policy{
		StreamAfter: 100 * time.Millisecond, CloseAfter: 50 * time.Second, Retry: time.Second, RetryMax: 30 * time.Second,
		AbandonAfter: 10 * time.Minute, MaxRuntime: time.Hour, Retain: 5 * time.Minute,
	}}
	b.m = New(&Config{
		Policy: b.policy, SessionIdleTTL: 24 * time.Hour, MaxInFlight: 64, MaxEnded: 100, Remember: 100,
	}, streamID("S"), b.now)
	b.m.phase, b.m.canPoll = phaseOpen, true
	for range 300 {
		b.json()
		b.polling()
		b.batch(make([]Request, 3))
	}
	return b
}

func (b *bench) step(in In) []Out {
	b.out = b.m.Step(b.now, &in, b.out[:0])
	return b.out
}

func (b *bench) post(id string, batch []Request, f Flags) {
	b.nonce++
	b.conn++
	for i := range 7 {
		b.stream[i] = byte(b.nonce >> (8 * i))
	}
	b.stream[7] = 1
	b.step(In{Op: Post, Flags: f, Stream: b.stream, Conn: b.conn, ID: id, Batch: batch, Nonce: b.nonce, Policy: &b.policy})
}

func (b *bench) get(seq uint64) {
	b.nonce++
	b.conn++
	b.now = b.now.Add(getInterval)
	b.step(In{Op: Get, Flags: HasCursor, Stream: b.stream, Seq: seq, Conn: b.conn, Nonce: b.nonce})
}

func (b *bench) written(seq uint64) {
	b.step(In{Op: Written, Stream: b.stream, Conn: b.conn, Seq: seq})
}

func (b *bench) gone() { b.step(In{Op: Gone, Stream: b.stream, Conn: b.conn}) }

// json is a call that is answered at once.
func (b *bench) json() {
	b.post("1", nil, 0)
	b.step(In{Op: Reply, Stream: b.stream, ID: "1"})
	b.gone()
}

// polling is a call whose client is let go, and polls until the response is there.
func (b *bench) polling() {
	b.post("1", nil, 0)
	b.step(In{Op: Emit, Stream: b.stream, Flags: Progress})
	b.written(1)
	b.step(In{Op: Close, Stream: b.stream, Rand: 1 << 30})
	b.gone()
	b.get(1)
	b.written(1)
	b.step(In{Op: Reply, Stream: b.stream, ID: "1"})
	b.written(2)
	b.gone()
}

// batch is answered in a stream, when two of three responses were there already.
func (b *bench) batch(rs []Request) {
	for i, id := range [...]string{"1", "2", "3"} {
		rs[i] = Request{ID: id}
	}
	b.post("", rs, 0)
	b.step(In{Op: Reply, Stream: b.stream, ID: "2"})
	b.step(In{Op: Reply, Stream: b.stream, ID: "3"})
	b.now = b.now.Add(100 * time.Millisecond)
	b.step(In{Op: Tick})
	b.written(0)
	for _, id := range [...]string{"2", "1", "3"} {
		b.step(In{Op: Reply, Stream: b.stream, ID: id})
	}
	b.written(3)
	b.gone()
}

// TestAllocs: no step allocates once the machine has reached its size. Each input is part of a story here.
func TestAllocs(t *testing.T) {
	b := newBench()
	rs := make([]Request, 3) // the driver's
	seen := map[Op]bool{}
	kept := make([]StreamID, 3)
	saw := func(ops ...Op) {
		for _, op := range ops {
			seen[op] = true
		}
	}
	for _, c := range []struct {
		name  string
		ops   []Op
		story func()
	}{
		{"a call in JSON", []Op{Post, Reply, Gone}, b.json},
		{"a call that is polled", []Op{Post, Emit, Written, Close, Gone, Get, Reply}, b.polling},
		{"a batch", []Op{Post, Reply, Tick, Written, Gone}, func() { b.batch(rs) }},
		{"the standalone stream", []Op{Get, Emit, Written, Full, Gap, Gone, Touch}, func() {
			s := streamID("S")
			b.conn++
			b.now = b.now.Add(getInterval)
			b.step(In{Op: Get, Conn: b.conn})
			b.step(In{Op: Emit})
			b.step(In{Op: Written, Stream: s, Conn: b.conn, Seq: b.m.streams[0].seq})
			b.step(In{Op: Emit})
			b.step(In{Op: Full, Stream: s, Seq: b.m.streams[0].seq})
			b.step(In{Op: Gap, Stream: s, Conn: b.conn, Reason: StoreFailed})
			b.step(In{Op: Gone, Stream: s, Conn: b.conn})
			b.step(In{Op: Touch})
		}},
		{"a call of which the store has too much", []Op{Post, Emit, Written, Press, Gone, Get, Reply}, func() {
			b.post("1", nil, 0)
			b.step(In{Op: Emit, Stream: b.stream})
			b.written(1)
			b.step(In{Op: Press, Stream: b.stream, Conn: b.conn})
			b.gone()
			b.get(1)
			b.step(In{Op: Press, Stream: b.stream, Conn: b.conn})
			b.step(In{Op: Reply, Stream: b.stream, ID: "1"})
			b.written(2)
			b.gone()
		}},
		{"a call that is cancelled", []Op{Post, Adjust, Cancel, Gone}, func() {
			b.post("1", nil, 0)
			b.step(In{Op: Adjust, Stream: b.stream, Policy: &b.policy})
			b.step(In{Op: Cancel, ID: "1"})
			b.gone()
		}},
		{"a call that nobody can fetch", []Op{Post, Gone, Reply}, func() {
			b.post("1", nil, 0)
			b.gone()
			b.step(In{Op: Reply, Stream: b.stream, ID: "1"})
		}},
		{"a call that overruns, whose store fails and recovers, and whose reader is lost", []Op{Tick, Reply, Lost, Healed, Gap, Gone}, func() {
			b.post("1", nil, 0)
			b.now = b.now.Add(time.Hour)
			b.step(In{Op: Tick})
			b.step(In{Op: Reply, Stream: b.stream, ID: "1"})
			b.step(In{Op: Lost, Stream: b.stream, Seq: 1})
			b.step(In{Op: Healed, Stream: b.stream, Seq: 1})
			b.step(In{Op: Gap, Stream: b.stream, Conn: b.conn, Reason: StoreFailed})
			b.gone()
		}},
		{"what is refused", []Op{Post, Get}, func() {
			b.post("1", nil, Initialize)
			b.step(In{Op: Gone, Conn: b.conn})
			b.get(77)
			b.step(In{Op: Gone, Conn: b.conn})
		}},
		{"streams that are dropped", []Op{Tick}, func() {
			b.polling()
			kept = append(kept[:0], kept[1], kept[2], b.stream)
			b.now = b.now.Add(2 * time.Minute)
			b.post("1", nil, 0)
			b.step(In{Op: Tick}) // one runs, else the machine gives back what it has
			b.step(In{Op: Reply, Stream: b.stream, ID: "1"})
			b.gone()
			b.stream = kept[0]
			b.get(1)
			b.gone()
		}},
	} {
		c.story()
		require.Zero(t, testing.AllocsPerRun(500, c.story), c.name)
		check(t, &b.m)
		saw(c.ops...)
	}

	// What happens to a session once happens to a copy here. (Its maps and slices are shared, which these steps do not mind.)
	whole := b.m
	for name, in := range map[string]In{
		"opened": {Op: Opened, ID: "2025-11-25"}, "open failed": {Op: OpenFailed}, "delete": {Op: Delete}, "drain": {Op: Drain},
		"hand over": {Op: HandOver, Flags: LetGo}, "stop": {Op: Stop},
	} {
		saw(in.Op)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			b.m = whole
			b.step(in)
		}), name)
	}
	for name, op := range verbs {
		require.True(t, seen[op], "%s is measured", name)
	}
}

// BenchmarkCall is all that the machine does for one call.
func BenchmarkCall(b *testing.B) {
	for name, call := range map[string]func(*bench) func(){
		"json":  func(s *bench) func() { return s.json },
		"polls": func(s *bench) func() { return s.polling },
	} {
		b.Run(name, func(b *testing.B) {
			s := newBench()
			f := call(s)
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

// BenchmarkTick is what a tick costs that finds nothing to do, with many calls parked.
func BenchmarkTick(b *testing.B) {
	s := newBench()
	s.m.cfg.MaxInFlight = 0
	for i := range 10000 {
		s.post(string(rune('A'+i)), nil, 0)
		s.step(In{Op: Close, Stream: s.stream})
		s.written(0)
		s.gone()
	}
	b.ReportAllocs()
	for b.Loop() {
		s.step(In{Op: Tick})
	}
}

// TestTaskAllocs: what happens often to a task allocates nothing.
func TestTaskAllocs(t *testing.T) {
	task := NewTask(TaskConfig{TTL: time.Hour, AbandonAfter: time.Hour, MaxRuntime: 24 * time.Hour}, start)
	out := make([]TaskOut, 0, 4)
	questions, keys := []TaskQuestion{{Key: "a"}}, []string{"unknown"}
	step := func(in TaskIn) func() {
		return func() { out = task.Step(start.Add(time.Second), &in, out[:0]) }
	}
	both := func(a, b func()) func() {
		return func() {
			a()
			b()
		}
	}
	step(TaskIn{Op: TaskNote, Message: "half"})()
	for name, f := range map[string]func(){
		"seen": step(TaskIn{Op: TaskSeen}), "tick": step(TaskIn{Op: TaskTick}), "the same note": step(TaskIn{Op: TaskNote, Message: "half"}),
		"fetched": step(TaskIn{Op: TaskFetched}), "an answer to nothing": step(TaskIn{Op: TaskAnswer, Keys: keys}),
		"listen and unlisten": both(step(TaskIn{Op: TaskListen}), step(TaskIn{Op: TaskUnlisten})),
		"notes":               both(step(TaskIn{Op: TaskNote, Message: "more"}), step(TaskIn{Op: TaskNote, Message: "half"})),
		"deadline":            func() { _ = task.Deadline() },
		"info":                func() { _ = task.Info(start) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	asked := both(step(TaskIn{Op: TaskAsk, Questions: questions}), step(TaskIn{Op: TaskAnswer, Keys: []string{"a"}}))
	require.LessOrEqual(t, testing.AllocsPerRun(100, asked), 1.0, "a question: the list of them")
}
