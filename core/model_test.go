package core

import (
	"math/rand/v2"
	"testing"
	"time"
)

// source says what happens next.
type source interface {
	pick(n int) int // a number from 0 to n-1
	more() bool
}

// random draws it.
type random struct {
	*rand.Rand

	steps int
}

func (r *random) pick(n int) int { return r.IntN(n) }
func (r *random) more() bool     { r.steps--; return r.steps >= 0 }

// given takes it from the fuzzer.
type given struct{ bytes []byte }

func (b *given) more() bool { return len(b.bytes) > 0 }
func (b *given) pick(n int) int {
	if len(b.bytes) == 0 {
		return 0
	}
	c := int(b.bytes[0])
	b.bytes = b.bytes[1:]
	return c % n
}

// runModels runs a model in groups with many seeds. kind tells its random numbers from those of other models.
func runModels(t *testing.T, kind uint64, groups, steps int, run func(t *testing.T, src source, seed uint64)) {
	t.Helper()
	t.Parallel()
	runs := 200
	if testing.Short() {
		runs = 20
	}
	for group := range groups {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for i := range runs {
				seed := uint64(group*runs + i)
				run(t, &random{rand.New(rand.NewPCG(seed, kind)), steps}, seed)
			}
		})
	}
}

// fuzzModel does the same, with what happens in the hands of the fuzzer.
func fuzzModel(f *testing.F, kind uint64, run func(t *testing.T, src source)) {
	f.Helper()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, kind))
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { run(t, &given{b}) })
}

// TestModel steps machines at random, and compares each with lists: see world.
func TestModel(t *testing.T) {
	runModels(t, 1, 16, 300, func(t *testing.T, src source, seed uint64) {
		w := newWorld(t, src)
		w.seed = seed
		w.run()
	})
}

func FuzzMachine(f *testing.F) {
	fuzzModel(f, 2, func(t *testing.T, src source) { newWorld(t, src).run() })
}

// run takes the world through its steps, and to an orderly end.
func (w *world) run() {
	for w.src.more() && !w.over {
		w.happen()
	}
	w.finish()
}

// happen lets one thing happen.
func (w *world) happen() {
	switch w.pick(32) {
	case 0, 1, 2:
		w.post()
	case 3:
		w.fresh()
	case 4, 5, 6:
		if len(w.cursors) > 0 {
			w.resume(w.cursors[w.pick(len(w.cursors))])
		}
	case 7:
		w.forge()
	case 8, 9, 10, 11:
		w.emit()
	case 12, 13, 14:
		w.reply()
	case 15, 16, 17, 18, 19:
		if c := w.someConn(); c != nil {
			w.write(c, w.pick(4), w.pick(4) > 0)
		}
	case 20:
		if c := w.someConn(); c != nil {
			w.lose(c)
		}
	case 21, 22:
		if w.pick(4) == 0 {
			w.press()
			return
		}
		w.close()
	case 23:
		w.cancel()
	case 24, 25, 26:
		w.pass()
	case 27, 28:
		if l := w.someLog(); l != nil {
			w.settle(l)
		}
	case 29:
		w.trim()
	case 30:
		w.adjust()
	default:
		w.rare()
	}
}

// rare lets something happen that ends most things.
func (w *world) rare() {
	switch w.pick(48) {
	case 0:
		in := In{Op: Drain, Flags: []Flags{0, 0, Final}[w.pick(3)]}
		w.draining = true
		w.final = w.final || in.Flags == Final
		w.step(in)
		w.must(w.over || !w.final || w.standalone.reader == nil, "in the end nobody stays")
		for _, l := range w.kept {
			w.must(l.reader == nil || !w.resumable(l) || l != w.standalone, "an idle stream ends")
		}
	case 1:
		w.draining, w.final = true, true
		w.step(In{Op: Stop})
	case 2:
		w.end([]Reason{Deleted, Moved, Terminated}[w.pick(3)])
	case 3, 4, 5, 6, 7:
		w.restore()
	case 8, 9, 10:
		w.handOver()
	default:
		w.active = w.at()
		w.step(In{Op: Touch})
	}
}

// handOver prepares the session for another process.
func (w *world) handOver() {
	in := In{Op: HandOver, Flags: []Flags{0, LetGo}[w.pick(2)]}
	w.step(in)
	runs := w.m.Running() > 0
	for _, l := range w.kept {
		switch stays := l.reader != nil; {
		case w.over || w.m.phase == phaseStopping:
		case l == w.standalone && !runs:
			w.must(!stays, "the standalone stream has no reader when nothing runs")
		case in.Flags == LetGo && stays && !l.undecided:
			w.must(!w.resumable(l), "a client that can come back is let go")
		}
	}
	w.must(!w.m.AtRest() || len(w.live) == 0 && !runs, "nothing is at rest that works or is read")
}

// finish answers all requests, lets every stream be fetched by a client that holds any cursor of it, lets all connections end, and
// looks at what is left.
func (w *world) finish() {
	for _, l := range w.logs {
		w.settle(l)
		for _, r := range l.requests {
			w.answer(l, r)
		}
		w.settle(l)
	}
	for _, cur := range w.last() {
		w.now = w.now.Add(time.Second)
		c := w.resume(cur)
		if c == nil {
			continue
		}
		w.writeOut(c)
		if c.log.ended && !c.hole && !c.log.dropped && !w.over {
			w.must(c.pos == len(c.log.msgs), "a client that comes back as often as needed gets everything: %d of %d", c.pos, len(c.log.msgs))
		}
	}
	for _, c := range w.conns {
		w.writeOut(c)
		w.gone(c)
	}
	if w.over {
		return
	}
	if w.idle <= 0 {
		w.now = w.now.Add(1000 * time.Hour)
		w.step(In{Op: Tick})
		m := &w.m
		w.must(m.streamTable == nil || len(m.byID) == 0 && len(m.inflight) == 0 && len(m.timers) == 0 && m.fetched.n == 0 && m.unfetched.n == 0 &&
			len(m.free) == 0 && cap(m.streams) == 1, "nothing is left of streams that have been dropped")
		w.must(m.running == 0 && m.unanswered == 0 && m.conns == 0, "nothing is counted that is gone")
		w.step(In{Op: Stop})
		w.must(w.over, "a session in which nothing happens stops at once")
		return
	}
	w.now = w.now.Add(1000 * time.Hour)
	w.step(In{Op: Tick})
	w.must(w.over, "an idle session ends")
}

// last returns the newest cursor of each stream, and some old ones.
func (w *world) last() []cursor {
	var out []cursor
	for _, l := range w.logs {
		var newest *cursor
		for i := range w.cursors {
			if w.cursors[i].log == l {
				newest = &w.cursors[i]
				if w.pick(8) == 0 {
					out = append(out, *newest)
				}
			}
		}
		if newest != nil {
			out = append(out, *newest)
		}
	}
	return out
}
