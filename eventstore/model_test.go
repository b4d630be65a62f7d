package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// model is the store as its documentation tells it: one slice, and a search for everything. It takes the charges from the
// store and nothing else.
type model struct {
	m       *Memory
	logs    []*modelLog
	owners  map[string]*modelOwner
	clock   int
	evicted int64
}

// modelOwner is a principal, or a session without.
type modelOwner struct {
	class int
	has   [2]bool
	filed [2]int // since when it is where it is
}

func ownerOf(k Key) string {
	if k.Principal != "" {
		return "principal " + k.Principal
	}
	return k.Session
}

// held sums up an owner.
func (d *model) held(name string) (used, spare, unread int64, has [2]bool) {
	seen := map[string]bool{}
	for _, l := range d.logs {
		if ownerOf(l.key) != name || !l.kept {
			continue
		}
		if !seen[l.key.Session] {
			seen[l.key.Session] = true
			used += sessionOverhead(l.key.Session)
		}
		used += l.charge()
		spare += l.spare()
		unread += l.unread()
		has[backlogs] = has[backlogs] || l.place() == backlog
		has[results] = has[results] || l.place() == owed
	}
	return used, spare, unread, has
}

// file notes when owners came to be where they are.
func (d *model) file() {
	for _, l := range d.logs {
		name := ownerOf(l.key)
		o := d.owners[name]
		if o == nil {
			o = &modelOwner{}
			d.owners[name] = o
		}
		used, _, _, has := d.held(name)
		class := classOf(used)
		for kind := range has {
			if has[kind] && (!o.has[kind] || class != o.class) {
				o.filed[kind] = d.clock
			}
		}
		o.class, o.has = class, has
	}
}

func (l *modelLog) unread() int64 {
	switch l.place() {
	case backlog:
		return l.spare() - l.ackedCharge()
	case owed:
		return l.charge() - l.ackedCharge()
	}
	return 0
}

func (l *modelLog) ackedCharge() int64 {
	if !l.hasAcked() {
		return 0
	}
	return charges(l.events[:l.acked-l.first+1])
}

type modelLog struct {
	key             Key
	first, last     uint64
	written, acked  uint64
	events          [][]byte
	sealed          bool
	backlog         bool
	kept, gone      bool
	placed, ackedAt int // when it came to be what it is
}

func (l *modelLog) place() place {
	switch {
	case !l.kept:
		return nowhere
	case l.sealed && l.written >= l.last:
		return done
	case l.sealed:
		return owed
	case l.backlog && len(l.events) > 0:
		return backlog
	}
	return running
}

func (l *modelLog) hasAcked() bool { return l.kept && len(l.events) > 0 && l.first <= l.acked }

// change does f and notes when that made the log something else.
func (d *model) change(l *modelLog, f func()) {
	place, acked := l.place(), l.hasAcked()
	f()
	d.clock++
	if l.place() != place {
		l.placed = d.clock
	}
	if l.hasAcked() && !acked {
		l.ackedAt = d.clock
	}
	d.file()
}

func (l *modelLog) overhead() int64 { return logCharge + heapSize(len(l.key.Stream)) }

func (l *modelLog) charge() int64 {
	if !l.kept {
		return 0
	}
	return l.overhead() + charges(l.events)
}

func charges(events [][]byte) (sum int64) {
	for _, data := range events {
		sum += eventCharge(data)
	}
	return sum
}

func (l *modelLog) spare() int64 {
	switch l.place() {
	case done, owed:
		return l.charge()
	case backlog:
		return charges(l.events)
	case running:
		if l.hasAcked() {
			return charges(l.events[:l.acked-l.first+1])
		}
	}
	return 0
}

func sessionOverhead(name string) int64 { return sessionCharge + heapSize(len(name)) }

// count sums up one session, or all of them.
func (d *model) count(session *string) (used, spare int64) {
	seen := map[string]bool{}
	for _, l := range d.logs {
		if session != nil && l.key.Session != *session || !l.kept {
			continue
		}
		if !seen[l.key.Session] {
			seen[l.key.Session] = true
			used += sessionOverhead(l.key.Session)
		}
		used += l.charge()
		spare += l.spare()
	}
	return used, spare
}

// victim is the first rule that finds somebody. In a session that is all; in the store what was not written out is taken from the owner of
// the highest class, and of none that is below least, but those that have given already.
func (d *model) victim(session *string, least int, from *[]string) (*modelLog, way) {
	oldest := func(fits func(*modelLog) bool, age func(*modelLog) int) (first *modelLog) {
		for _, l := range d.logs {
			if (session == nil || l.key.Session == *session) && fits(l) && (first == nil || age(l) < age(first)) {
				first = l
			}
		}
		return first
	}
	placed := func(l *modelLog) int { return l.placed }
	is := func(p place) func(*modelLog) bool { return func(l *modelLog) bool { return l.place() == p } }
	if l := oldest((*modelLog).hasAcked, func(l *modelLog) int { return l.ackedAt }); l != nil {
		return l, loseAcked
	}
	if l := oldest(is(done), placed); l != nil {
		return l, loseDone
	}
	if session != nil {
		if l := oldest(is(backlog), placed); l != nil {
			return l, loseBacklog
		}
		if l := oldest(is(owed), placed); l != nil {
			return l, loseOwed
		}
		return nil, noWay
	}
	of := func(name string, kind int) (*modelLog, way) {
		p, how := backlog, loseBacklog
		if kind == results {
			p, how = owed, loseOwed
		}
		return oldest(func(l *modelLog) bool { return ownerOf(l.key) == name && l.place() == p }, placed), how
	}
	for class := classes; class >= least; class-- {
		for kind := range 2 {
			first := ""
			for name, o := range d.owners {
				if o.class == class && o.has[kind] && (first == "" || o.filed[kind] < d.owners[first].filed[kind]) {
					first = name
				}
			}
			if first != "" {
				if !slices.Contains(*from, first) {
					*from = append(*from, first)
				}
				return of(first, kind)
			}
		}
	}
	for _, name := range *from {
		for kind := range 2 {
			if l, how := of(name, kind); l != nil {
				return l, how
			}
		}
	}
	return nil, noWay
}

func (d *model) evict(l *modelLog, how way) {
	d.change(l, func() {
		n := 1
		if how == loseDone || how == loseOwed {
			n = len(l.events)
		}
		d.evicted += int64(n)
		l.events = l.events[n:]
		l.first += uint64(n)
		if l.sealed && len(l.events) == 0 {
			l.kept = false
		}
	})
	if how == loseBacklog && l.place() == backlog {
		d.clock++
		l.placed = d.clock // its turn is over
		d.owners[ownerOf(l.key)].filed[backlogs] = d.clock
	}
}

// behindError is a BehindError that can be compared.
type behindError BehindError

func (behindError) Error() string { return "behind" }

func (d *model) append(l *modelLog, seq uint64, data []byte, seal bool) error {
	switch {
	case l.gone:
		return ErrGone
	case l.last == 0 && seq != 1:
		return behindError{}
	case l.last > 0 && seq == l.last && seal == l.sealed &&
		(len(l.events) == 0 || bytes.Equal(data, l.events[len(l.events)-1])):
		return nil
	case l.sealed:
		return ErrSealed
	case seq < l.last+1:
		return ErrSequence
	case seq > l.last+1:
		return behindError{Last: l.last}
	}
	e := eventCharge(data)
	logCost := e
	if !l.kept {
		logCost += l.overhead()
	}
	// overhead of the session that is not charged yet
	extra := func() int64 {
		if used, _ := d.count(&l.key.Session); used == 0 {
			return sessionOverhead(l.key.Session)
		}
		return 0
	}
	sessionUsed, sessionSpare := d.count(&l.key.Session)
	used, spare := d.count(nil)
	own := ownerOf(l.key)
	granted := func() bool {
		used, spare := d.count(nil)
		mine, mySpare, _, _ := d.held(own)
		return mine-mySpare+logCost+extra() <= min(smallBytes, d.m.total/1024) && used-spare+logCost+extra() <= d.m.total+d.m.total/4
	}
	if !seal {
		mine, mySpare, _, _ := d.held(own)
		for name, o := range d.owners {
			if _, _, unread, _ := d.held(name); name != own && o.class < classOf(mine+logCost+extra()) {
				spare -= unread // of those that hold less
			}
		}
		_, all := d.count(nil)
		switch {
		case l.backlog && e > d.m.perBacklog, sessionUsed-sessionSpare+logCost+extra() > d.m.perSession:
			return ErrFull
		case l.key.Principal != "" && !l.backlog && mine-mySpare+logCost+extra() > d.m.total-(used-all) && !granted():
			return ErrFull
		case used-spare+logCost+extra() > d.m.total && !granted():
			return ErrFull
		}
	}
	if l.backlog && !seal {
		for charges(l.events)+e > d.m.perBacklog {
			turn := l.placed
			d.evict(l, loseBacklog)
			if l.place() == backlog {
				l.placed = turn // its own limit is no turn
			}
		}
	}
	from := []string{own}
	for _, scope := range []*string{&l.key.Session, nil} {
		limit := d.m.perSession
		if scope == nil {
			limit = d.m.total
		}
		mine, _, _, _ := d.held(own)
		class := classOf(mine + logCost + extra())
		for {
			used, _ := d.count(scope)
			if used+logCost+extra() <= limit {
				break
			}
			v, how := d.victim(scope, class, &from)
			if v == nil {
				break // only a seal gets here, and who is granted it
			}
			d.evict(v, how)
		}
	}
	d.change(l, func() {
		l.events = append(slices.Clip(l.events), data)
		l.last++
		l.kept = true
		l.sealed = seal
	})
	return nil
}

func (d *model) mark(l *modelLog, mark Mark) {
	if !l.kept {
		return
	}
	d.change(l, func() {
		l.acked = max(l.acked, min(mark.Acked, l.last))
		l.written = max(l.written, min(mark.Written, l.last), l.acked)
	})
}

func (d *model) drop(l *modelLog) {
	l.kept, l.gone, l.events = false, true, nil
	d.clock++
	d.file()
}

func TestMemoryDoesWhatTheModelDoes(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { playModel(t, seed, 800) })
	}
}

func playModel(t *testing.T, seed uint64, steps int) {
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(seed, 1))
	m := NewMemory(MemoryConfig{
		SessionBytes: 4000 + rnd.Int64N(4000),
		TotalBytes:   10_000 + rnd.Int64N(10_000),
		BacklogBytes: 500 + rnd.Int64N(1500),
	})
	d := &model{m: m, owners: map[string]*modelOwner{}}
	handles := map[*modelLog]Log{}
	var live []*modelLog
	names := 0
	for step := range steps {
		if len(live) == 0 || rnd.IntN(8) == 0 {
			names++
			l := &modelLog{first: 1, key: Key{
				Session: fmt.Sprint("session", rnd.IntN(4)),
				Stream:  fmt.Sprint("stream", names),
				Backlog: rnd.IntN(5) == 0,
			}}
			if l.key.Session < "session2" && seed%2 == 1 {
				l.key.Principal = "p"
			}
			l.backlog = l.key.Backlog
			d.logs = append(d.logs, l)
			live = append(live, l)
			handles[l] = m.Log(l.key)
		}
		l := live[rnd.IntN(len(live))]
		what := fmt.Sprintf("seed %d, step %d, %+v", seed, step, l.key)
		switch n := rnd.IntN(20); {
		case n < 12:
			seq := l.last + 1
			if rnd.IntN(10) == 0 {
				seq = uint64(rnd.IntN(int(l.last) + 3))
			}
			data := make([]byte, rnd.IntN(400))
			if rnd.IntN(10) == 0 {
				data = make([]byte, rnd.IntN(5000))
			}
			for i := range data {
				data[i] = byte(rnd.Uint32())
			}
			if len(l.events) > 0 && rnd.IntN(4) == 0 {
				data = bytes.Clone(l.events[len(l.events)-1])
			}
			seal := !l.backlog && rnd.IntN(4) == 0
			want := d.append(l, seq, data, seal)
			got := handles[l].Append(ctx, seq, data, seal)
			if behind, ok := errors.AsType[*BehindError](got); ok {
				got = behindError(*behind)
			}
			require.ErrorIs(t, got, want, "%s: append event %d of %d bytes, seal %v", what, seq, len(data), seal)
		case n < 17:
			mark := Mark{Written: uint64(rnd.IntN(int(l.last) + 2))}
			if rnd.IntN(2) == 0 {
				mark.Acked = uint64(rnd.IntN(int(l.last) + 2))
			}
			d.mark(l, mark)
			handles[l].Mark(mark)
		case n < 19:
			d.drop(l)
			require.NoError(t, handles[l].Drop(ctx))
			live = slices.DeleteFunc(live, func(x *modelLog) bool { return x == l && rnd.IntN(2) == 0 })
		case rnd.IntN(10) == 0:
			for _, x := range d.logs {
				if x.key.Session == l.key.Session {
					d.drop(x)
				}
			}
			require.NoError(t, m.DropSession(ctx, l.key.Session))
		}
		d.compare(t, handles, what)
		if step%50 == 0 {
			verify(t, m)
		}
	}
	verify(t, m)
	require.NotZero(t, d.evicted, "seed %d never came to a limit", seed)
	require.NoError(t, m.Close())
	used, _ := m.Usage()
	require.Zero(t, used, "seed %d: a closed store holds something", seed)
	require.Zero(t, m.sessions.size())
}

// compare looks at everything that can be seen.
func (d *model) compare(t *testing.T, handles map[*modelLog]Log, what string) {
	t.Helper()
	used, _ := d.count(nil)
	gotUsed, gotEvicted := d.m.Usage()
	require.Equal(t, used, gotUsed, what)
	require.Equal(t, d.evicted, gotEvicted, what)
	var buf [64]Event
	for _, l := range d.logs {
		n, st, err := handles[l].Read(context.Background(), 0, buf[:])
		if l.gone {
			require.ErrorIs(t, err, ErrGone, what)
			continue
		}
		require.NoError(t, err, what)
		require.Equal(t, State{First: l.first, Last: l.last, Sealed: l.sealed}, st, "%s: %+v", what, l.key)
		require.Equal(t, min(len(l.events), len(buf)), n, "%s: %+v", what, l.key)
		for i, ev := range buf[:n] {
			if ev.Seq != l.first+uint64(i) || !bytes.Equal(ev.Data, l.events[i]) {
				require.Fail(t, "another event", "%s: %+v: event %d", what, l.key, ev.Seq)
			}
		}
	}
}
