package model_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// round is one random history of several calls and the standalone stream in one session, determined by a seed. Tools send in bursts; clients cut
// their connections, poll, take over, freeze, thaw, and poll from old positions. In the end each stream was read whole and in order, each event once.
type round struct {
	t        *testing.T
	seed     uint64
	random   *rand.Rand
	began    time.Time
	patience time.Duration // how long a message may take to arrive

	mu       sync.Mutex
	trace    []string
	faults   []string
	speeches map[string]*speech

	asides       atomic.Int64
	calm, ending atomic.Bool
}

// say records what happens, for the log of a failure.
func (rd *round) say(format string, args ...any) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.trace = append(rd.trace, fmt.Sprintf("%8.3fs ", time.Since(rd.began).Seconds())+fmt.Sprintf(format, args...))
}

// fault records an error. Any goroutine may call it; check fails the test.
func (rd *round) fault(format string, args ...any) {
	rd.say("FAULT: "+format, args...)
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.faults = append(rd.faults, fmt.Sprintf(format, args...))
}

func (rd *round) check() {
	rd.t.Helper()
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if len(rd.faults) > 0 {
		rd.t.Fatalf("seed %d: %s\n%s", rd.seed, rd.faults[0], strings.Join(rd.trace[max(0, len(rd.trace)-150):], "\n"))
	}
}

// rounds runs n rounds.
func rounds(t *testing.T, n, events int, m moods) {
	for seed := range uint64(n) {
		kit.Bubble(t, func(t *testing.T) {
			rd := &round{t: t, seed: seed, began: time.Now(), speeches: map[string]*speech{}}
			rd.random = rd.rand("story")
			if m.drags {
				rd.patience = 10 * time.Minute
			}
			rd.tell(events, m)
		})
		if t.Failed() {
			return
		}
	}
}

func (rd *round) tell(events int, m moods) {
	cfg := rejoin.Config{
		Store: rd.store(m), Logger: kit.QuietLogger(), KeepAlive: -1, // a comment would wake a connection that was not woken for an event
		WriteTimeout: []time.Duration{time.Second, 30 * time.Second}[rd.random.IntN(2)],
		Policy:       rejoin.Policy{StreamAfter: time.Millisecond, AbandonAfter: -1, Retain: -1},
	}
	if rd.random.IntN(3) == 0 {
		cfg.Policy.CloseAfter = 700 * time.Millisecond
	}
	c := rejointest.New(rd.t, rd.teller(), rejointest.Config{Server: cfg})
	aside := newFollower(rd, c, "standalone")
	aside.unnamed = m.fails
	aside.get("")
	var calls []*follower
	for i, n := range []int{events, events / 10, events / 10} {
		f := newFollower(rd, c, "call"+strconv.Itoa(i))
		f.unnamed = m.fails
		rd.mu.Lock()
		rd.speeches[f.name] = &speech{events: n, voices: 1 + rd.random.IntN(2), returned: make(chan struct{})}
		rd.mu.Unlock()
		f.post(100+i, fmt.Sprintf(`{"name":%q,"_meta":{"progressToken":%d}}`, f.name, i))
		calls = append(calls, f)
	}
	for range 40 {
		kit.Elapse(time.Duration(rd.random.IntN(150)) * time.Millisecond)
		switch n := rd.random.IntN(6); n {
		case 0:
			rd.act(aside, true)
		case 1, 2:
			rd.act(calls[n], false)
		default:
			rd.act(calls[0], false)
		}
		if m == (moods{}) {
			rd.atRest(aside, &rd.asides, false)
			for _, f := range calls {
				rd.atRest(f, &rd.speeches[f.name].taken, true)
			}
		}
		rd.check()
	}
	rd.calm.Store(true)
	for _, f := range calls {
		<-rd.speeches[f.name].returned
		rd.finish(f)
		rd.audit(f)
	}
	rd.auditAside(aside)
	rd.ending.Store(true)
	c.Delete()
	for _, f := range append(calls, aside) {
		f.stop()
	}
	kit.Elapse(time.Minute)
	synctest.Wait()
	rd.check()
	after := c.Server().Stats()
	require.Zero(rd.t, after.Sessions, "seed %d", rd.seed)
	require.Zero(rd.t, after.Connections, "seed %d", rd.seed)
	if !m.fails { // otherwise the store may keep what it failed to drop
		require.Zero(rd.t, after.StoredBytes, "seed %d", rd.seed)
	}
}

// act performs a random action of a client.
func (rd *round) act(f *follower, standalone bool) {
	_, answered, reading := f.state()
	switch rd.random.IntN(13) {
	case 0, 1:
		rd.say("%s: cut", f.name)
		f.cut()
	case 2:
		rd.say("%s: cut, and back at once", f.name)
		f.cut()
		f.back()
	case 3:
		rd.say("%s: takes over", f.name)
		f.back()
	case 4:
		rd.say("%s: freezes", f.name)
		f.freeze()
	case 5:
		rd.say("%s: freezes, and takes over", f.name)
		f.freeze()
		f.back()
	case 6:
		rd.say("%s: freezes for a while", f.name) // long enough for its buffers to fill, and for the tool to close the stream
		f.freeze()
		kit.Elapse(time.Duration(rd.random.IntN(900)) * time.Millisecond)
		f.thaw()
	case 7:
		f.asleep = rd.random.IntN(2) == 0
		rd.say("%s: comes back with an old cursor, asleep: %v", f.name, f.asleep)
		f.get(f.id(rd.random.IntN(1 << 20)))
		if f.asleep {
			kit.Elapse(time.Duration(rd.random.IntN(900)) * time.Millisecond)
			f.thaw()
		}
		f.asleep = false
	case 8:
		rd.say("%s: cut, and back late", f.name)
		f.cut()
		kit.Elapse(time.Duration(rd.random.IntN(3000)) * time.Millisecond)
		f.back()
	case 9:
		rd.say("%s: thaws", f.name)
		f.thaw()
	case 10:
		if standalone {
			rd.say("%s: begins anew", f.name)
			f.get("")
		}
	default:
		if !reading && !answered {
			f.back()
		}
	}
}

// atRest checks, when nothing can happen without time passing, that a client that reads has every event, and that the connections that it has
// replaced have ended.
func (rd *round) atRest(f *follower, sent *atomic.Int64, answers bool) {
	synctest.Wait()
	said := sent.Load()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, l := range f.lines {
		l.gate.mu.Lock()
		held := l.gate.closed != nil
		l.gate.mu.Unlock()
		switch {
		case held, l.over:
		case i < len(f.lines)-1:
			rd.fault("%s: line %d goes on although a newer one reads", f.name, l.n)
		case l.pos != uint64(said):
			rd.fault("%s: line %d is at %d, and %d were sent: a wake-up was lost", f.name, l.n, l.pos, said)
		case answers && f.answer != 0:
			rd.fault("%s: line %d goes on after the response", f.name, l.n)
		}
	}
}

// finish waits for the response of a call whose tool has returned. If the store is neither slow nor failing, a current connection brings it at once,
// or else the next poll.
func (rd *round) finish(f *follower) {
	f.thaw()
	for range 20 {
		if f.await(rd.patience) {
			break
		}
		if _, _, reading := f.state(); reading {
			l := f.newest()
			rd.fault("%s: the tool has returned, and its client, on line %d, waits in vain after %d", f.name, l.n, l.pos)
			break
		}
		f.back()
	}
	if _, answered, _ := f.state(); !answered {
		rd.fault("%s: the response did not come", f.name)
	}
	rd.check()
}

// audit reads a call from its beginning, and from another position, and compares it with what the tool has sent.
func (rd *round) audit(f *follower) {
	for _, id := range []string{f.id(0), f.id(rd.random.IntN(1 << 20))} {
		if _, at, _ := kit.Position(id); at == f.answer {
			continue // nothing is left of the stream
		}
		f.get(id)
		if !f.await(rd.patience) {
			rd.fault("%s: read again from %s, it brings no response", f.name, kit.ShortID(id))
		}
		rd.check()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	sp := rd.speeches[f.name]
	if want := uint64(sp.taken.Load()) + 1; f.top != want || f.answer != want {
		rd.fault("%s: of %d events there are %d, the response is %d", f.name, want, f.top, f.answer)
	}
	next := map[string]int{}
	for at := uint64(1); at < f.top; at++ {
		var m struct {
			Params struct {
				Message  string
				Progress int
			}
		}
		require.NoError(rd.t, json.Unmarshal(f.events[at], &m))
		if m.Params.Progress != next[m.Params.Message] {
			rd.fault("%s: event %d is number %d of %s, and should be %d", f.name, at, m.Params.Progress, m.Params.Message, next[m.Params.Message])
			break
		}
		next[m.Params.Message]++
	}
	rd.check()
}

// auditAside does the same with the standalone stream.
func (rd *round) auditAside(f *follower) {
	f.thaw()
	f.get(f.id(0))
	for limit := time.Now().Add(rd.patience); time.Now().Before(limit); kit.Elapse(time.Second) {
		if pos, _, _ := f.state(); pos == uint64(rd.asides.Load()) {
			break
		}
	}
	synctest.Wait()
	if pos, _, _ := f.state(); pos != uint64(rd.asides.Load()) {
		rd.fault("%s: %d things were said, and %d are heard", f.name, rd.asides.Load(), pos)
	}
	rd.check()
}

// Invariants 2, 3 and 4 hold, whatever clients and tools do.
func TestTorture(t *testing.T) { rounds(t, 50, 2000, moods{}) }

// A slow store only delays.
func TestTortureWithASlowStore(t *testing.T) { rounds(t, 50, 600, moods{drags: true}) }

// If the store fails, the server continues in memory and without ids, clients that cannot get the recorded events are told so, and no call hangs.
func TestTortureWithAFailingStore(t *testing.T) { rounds(t, 50, 600, moods{drags: true, fails: true}) }
