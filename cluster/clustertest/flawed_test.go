package clustertest

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// flawed is the directory in memory with a flaw. With none it passes the exam.
type flawed struct {
	*cluster.Memory
	flaw string

	born time.Time

	mu      sync.Mutex
	life    int
	newest  map[string]cluster.Member // by Self
	unleft  map[string]bool           // by incarnation
	hidden  map[string]bool           // sessions whose release was taken back
	ended   map[string]time.Time
	records map[string]*cluster.Record
}

func newFlawed(flaw string) *flawed {
	f := &flawed{Memory: cluster.NewMemory(eventstore.MemoryConfig{}), flaw: flaw, born: time.Now(), ended: map[string]time.Time{}, unleft: map[string]bool{}}
	f.newest, f.hidden = map[string]cluster.Member{}, map[string]bool{}
	f.records = map[string]*cluster.Record{}
	return f
}

func (f *flawed) engine(testing.TB) Engine { return Engine{Directory: f, Store: f, Forget: f.Forget} }

func (f *flawed) has(flaws ...string) bool { return slices.Contains(flaws, f.flaw) }

func (f *flawed) Forget() {
	f.mu.Lock()
	f.life++
	clear(f.newest)
	f.mu.Unlock()
	if !f.has("forgets nothing") {
		f.Memory.Forget()
	}
}

func (f *flawed) Close() error {
	if f.has("works on after close") {
		return nil
	}
	return f.Memory.Close()
}

// session is the name under which the engine keeps a session.
func (f *flawed) session(name string) string {
	switch {
	case f.has("cuts names at NUL"):
		name, _, _ = strings.Cut(name, "\x00")
	case f.has("ignores case"):
		name = strings.ToLower(name)
	}
	return name
}

// current is the fence of the record.
func (f *flawed) current(session string) (eventstore.Fence, error) {
	found, err := f.Memory.Find(context.Background(), session, cluster.Process{})
	if err != nil {
		return eventstore.Fence{}, err
	}
	return found.Record.Fence, nil
}

// fence is the one with which an operation is made that was given fence. what is "records" or "logs".
func (f *flawed) fence(what, session string, fence eventstore.Fence) eventstore.Fence {
	now, err := f.current(session)
	switch {
	case err != nil:
	case f.has("fences no " + what),
		f.has("fences "+what+" by epoch") && fence.Epoch == now.Epoch,
		f.has("fences "+what+" by incarnation") && fence.Incarnation == now.Incarnation,
		f.has("fences "+what+" against lower epochs") && fence.Epoch >= now.Epoch:
		return now
	}
	return fence
}

func (f *flawed) context(ctx context.Context) context.Context {
	if f.has("ignores contexts") {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (f *flawed) lease(lease time.Duration) time.Duration {
	switch {
	case f.has("keeps entries for ever"):
		return 1000 * lease
	case f.has("keeps entries for a lease"):
		return lease / 4 // the memory keeps them for four
	}
	return lease
}

func (f *flawed) ttl(ttl time.Duration) time.Duration {
	switch {
	case f.has("keeps records for ever"):
		return 1000 * ttl
	case f.has("keeps records for half of their lives"):
		return ttl / 2
	}
	return ttl
}

func (f *flawed) process(p cluster.Process) cluster.Process {
	if f.has("knows one cluster") {
		p.Cluster = "c"
	}
	return p
}

func (f *flawed) Join(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.Member, error) {
	f.mu.Lock()
	before, again := f.newest[m.Self]
	f.mu.Unlock()
	ctx, m.Process = f.context(ctx), f.process(m.Process)
	switch {
	case f.has("supersedes nobody") && again && before.Incarnation != m.Incarnation:
		return cluster.Member{Process: m.Process, Generation: m.Generation}, nil
	case f.has("a repeated Join is another one") && again && before == m:
		_, _ = f.Memory.Join(ctx, cluster.Member{Process: m.Process, Generation: m.Generation + 1}, lease)
	case f.has("joins in two steps") && again && m.Generation > before.Generation:
		for range 10 {
			runtime.Gosched()
		}
		_, _ = f.Memory.Renew(ctx, m, lease)
		return m, nil
	}
	joined, err := f.Memory.Join(ctx, m, f.lease(lease))
	if err == nil {
		f.mu.Lock()
		f.newest[m.Self] = m
		f.mu.Unlock()
	}
	switch {
	case errors.Is(err, cluster.ErrSuperseded) && f.has("supersedes whoever is there"):
		m.Generation = joined.Generation + 1
		return f.Memory.Join(ctx, m, lease)
	case errors.Is(err, cluster.ErrSuperseded) && f.has("keeps what stands to itself"):
		joined = cluster.Member{}
	case errors.Is(err, cluster.ErrSuperseded) && f.has("joins a process once") && joined.Incarnation == m.Incarnation:
		return joined, nil
	}
	return joined, err
}

func (f *flawed) Renew(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.Process = f.process(m.Process)
	v, err := f.Memory.Renew(f.context(ctx), m, f.lease(lease))
	switch {
	case err != nil && f.has("renews what was superseded"):
		err = nil
	case f.has("returns the count that was written"):
		v.Was = m.Count
	case f.has("shows the caller alone"):
		v.Members = slices.DeleteFunc(v.Members, func(other cluster.Member) bool { return other.Process != m.Process })
	}
	if f.has("takes Left back") {
		f.unleft[m.Incarnation] = !m.Left
		for i := range v.Members {
			v.Members[i].Left = v.Members[i].Left && !f.unleft[v.Members[i].Incarnation]
		}
	}
	return v, err
}

func (f *flawed) Leave(ctx context.Context, m cluster.Member) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if newest, ok := f.newest[m.Self]; ok && f.has("marks by Self") {
		m.Process = newest.Process
	}
	return f.Memory.Leave(f.context(ctx), m)
}

func (f *flawed) Put(ctx context.Context, given *cluster.Record, ttl time.Duration) error {
	r := *given
	r.Session = f.session(r.Session)
	now, unknown := f.current(r.Session)
	if f.has("puts in two steps") {
		runtime.Gosched()
	}
	switch {
	case unknown != nil && f.has("puts first owners only") && r.Fence.Epoch != 1:
		return eventstore.ErrFenced
	case unknown == nil && f.has("puts a record once"):
		return nil
	case unknown == nil && f.has("drops logs when it puts") && now == r.Fence:
		_ = f.DropSession(ctx, r.Session)
	}
	if f.has("cuts large states") {
		r.State = r.State[:min(len(r.State), 1<<19)]
	}
	if !f.putting(&r) {
		return nil
	}
	err := f.Memory.Put(f.context(ctx), &r, f.ttl(ttl))
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil && f.has("takes releases back when it puts"):
		f.hidden[r.Session] = true
	case err == nil && f.has("puts what is released") && r.Released:
		_ = f.Release(ctx, r.Session, r.Fence)
	case err == nil && f.has("gives out its own record"):
		f.records[r.Session] = given
	case errors.Is(err, eventstore.ErrFenced) && (f.has("puts over other fences") || f.has("puts over lower epochs") && r.Fence.Epoch > now.Epoch ||
		f.has("puts in two steps") && unknown != nil),
		errors.Is(err, cluster.ErrEnded) && f.has("puts over tombstones"):
		return nil
	}
	return err
}

func (f *flawed) Find(ctx context.Context, session string, by cluster.Process) (cluster.Found, error) {
	found, err := f.look(f.context(ctx), f.session(session), f.process(by))
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	ended, wasEnded := f.ended[session]
	switch {
	case errors.Is(err, cluster.ErrEnded) && (f.has("leaves no tombstones") ||
		f.has("keeps tombstones for half of their lives") && now.Sub(ended) > cluster.TombstoneTTL/2):
		err = cluster.ErrUnknown
	case errors.Is(err, cluster.ErrUnknown) && f.has("keeps tombstones for ever") && wasEnded:
		err = cluster.ErrEnded
	}
	switch {
	case err != nil && f.has("gives no count with an error"):
		found.Count = 0
	case f.has("gives the count of the newest with that Self"):
		newest, _ := f.Memory.Find(ctx, session, f.newest[by.Self].Process)
		found.Count = newest.Count
	}
	r := found.Record
	if r == nil {
		return found, err
	}
	r.Session = session
	switch {
	case f.has("puts no generations"):
		r.Generation = 0
	case f.has("takes nil for empty") && r.State == nil:
		r.State = []byte{}
	case f.has("takes empty for nil") && len(r.State) == 0:
		r.State = nil
	case f.hidden[session]:
		r.Released = false
	case f.records[session] != nil:
		f.records[session].State = r.State
		found.Record = f.records[session]
	}
	return found, err
}

func (f *flawed) Adopt(
	ctx context.Context, session string, from eventstore.Fence, to cluster.Member, ttl time.Duration,
) (*cluster.Record, []cluster.Stream, error) {
	given := session
	session = f.session(session)
	now, unknown := f.current(session)
	next := eventstore.Fence{Incarnation: to.Incarnation, Epoch: from.Epoch + 1}
	var early []uint64 // where logs end
	switch {
	case unknown != nil:
	case f.has("adopts whatever the fence"):
		from = now
	case f.has("takes a repeated adoption for another one") && now == next:
		return nil, nil, eventstore.ErrFenced
	case f.has("adopts in two steps") && from == now:
		for range 10 {
			runtime.Gosched()
		}
		from, _ = f.current(session)
	case f.has("looks at the logs before it fences"):
		for _, stream := range []string{"0", "1", "2"} {
			_, st, _ := f.Memory.Log(eventstore.Key{Session: session, Stream: stream}).Read(ctx, 0, nil, 0)
			early = append(early, st.Last)
		}
		for range 10 {
			runtime.Gosched()
		}
	}
	r, streams, err := f.Memory.Adopt(f.context(ctx), session, from, to, f.ttl(ttl))
	if err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Session = given
	switch {
	case f.has("takes releases back when an adoption is repeated") && now == next:
		f.hidden[session], r.Released = true, false
	case f.has("adopts and leaves it released"):
		r.Released = r.Released || now != next
	case f.has("forgets states at adoptions"):
		r.State = nil
	case f.has("forgets versions at adoptions"):
		r.Version = 0
	case f.has("forgets who adopts"):
		r.Generation++
	case f.has("sorts streams"):
		slices.SortFunc(streams, func(a, b cluster.Stream) int { return strings.Compare(a.Name, b.Name) })
	case f.has("shows no logs without events"):
		streams = slices.DeleteFunc(streams, func(s cluster.Stream) bool { return s.Last < s.First })
	}
	for i := range streams {
		s := &streams[i]
		switch {
		case f.has("forgets what streams are about"):
			s.About = ""
		case f.has("forgets which stream is a backlog"):
			s.Backlog = false
		case f.has("thinks that all logs begin at 1"):
			s.First = 1
		case early != nil && s.Name[0] >= '0' && s.Name[0] <= '2':
			s.Last = early[s.Name[0]-'0']
		}
	}
	return r, streams, nil
}

func (f *flawed) Save(ctx context.Context, session string, fence eventstore.Fence, version uint64, state []byte) error {
	session = f.session(session)
	if f.has("cuts large states") {
		state = state[:min(len(state), 1<<19)]
	}
	if f.has("forgets the fence when released") {
		if found, err := f.Memory.Find(ctx, session, cluster.Process{}); err == nil && found.Record.Released {
			return eventstore.ErrFenced
		}
	}
	if f.has("saves into what it was given") {
		if found, err := f.Memory.Find(ctx, session, cluster.Process{}); err == nil && len(state) > 0 && len(found.Record.State) == len(state) {
			copy(found.Record.State, bytes.Clone(state))
		}
	}
	if mine, err := f.saved(session, fence, version, state); mine {
		return err
	}
	err := f.Memory.Save(f.context(ctx), session, f.fence("records", session, fence), version, state)
	if f.has("saves what it does not know") && errors.Is(err, cluster.ErrUnknown) {
		return nil
	}
	return err
}

func (f *flawed) Touch(ctx context.Context, held []cluster.Held, ttl time.Duration) ([]cluster.Held, error) {
	switch {
	case f.has("touches nothing"):
		held = nil
	case f.has("touches what others own"):
		held = slices.Clone(held)
		for i, h := range held {
			if now, err := f.current(h.Session); err == nil {
				held[i].Fence = now
			}
		}
	}
	missing, err := f.Memory.Touch(f.context(ctx), held, f.ttl(ttl))
	return f.missed(held, missing), err
}

func (f *flawed) Release(ctx context.Context, session string, fence eventstore.Fence) error {
	err := f.Memory.Release(f.context(ctx), f.session(session), f.fence("records", session, fence))
	if now, unknown := f.current(session); errors.Is(err, eventstore.ErrFenced) && unknown == nil && f.has("releases what was adopted") {
		return f.Memory.Release(ctx, session, now)
	}
	return err
}

func (f *flawed) End(ctx context.Context, session string, fence eventstore.Fence) error {
	session = f.session(session)
	now, err := f.current(session)
	switch {
	case err == nil && f.has("ends what was adopted"):
		fence = now
	case errors.Is(err, cluster.ErrUnknown) && f.has("ends only what it knows"):
		return nil
	case errors.Is(err, cluster.ErrEnded) && f.has("ends once"):
		return err
	}
	if err := f.Memory.End(f.context(ctx), session, f.fence("records", session, fence)); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended[session] = time.Now()
	return nil
}

func (f *flawed) Log(k eventstore.Key) eventstore.Log {
	k.Session = f.session(k.Session)
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.current(k.Session)
	return &flawedLog{f: f, key: k, life: f.life, early: errors.Is(err, cluster.ErrUnknown)}
}

type flawedLog struct {
	f     *flawed
	key   eventstore.Key
	life  int
	early bool // made before there was a record

	mu    sync.Mutex
	given eventstore.Log
	used  bool
}

// log is the handle for an operation.
func (l *flawedLog) log(op string) eventstore.Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given == nil {
		l.given = l.f.Memory.Log(l.key)
	}
	k := l.key
	k.Fence = l.f.fence("logs", k.Session, k.Fence)
	if now, err := l.f.current(k.Session); err == nil {
		if l.f.has("fences no "+op) || l.f.has("checks the fence once") && l.used || l.f.has("takes no fence for the owner's") && k.Fence == (eventstore.Fence{}) {
			k.Fence = now
		}
	}
	if l.used = true; k.Fence != l.key.Fence {
		return l.f.Memory.Log(k)
	}
	return l.given
}

// lost is the error of an operation that failed with err.
func (l *flawedLog) lost(err error) error {
	l.f.mu.Lock()
	life := l.f.life
	l.f.mu.Unlock()
	_, unknown := l.f.current(l.key.Session)
	_, behind := errors.AsType[*eventstore.BehindError](err)
	switch {
	case l.f.has("kills handles when it forgets") && l.life != life, l.f.has("kills early handles") && l.early && unknown == nil:
		return eventstore.ErrGone
	case behind && l.f.has("takes events of sessions that it does not know"):
		return nil
	case behind && l.f.has("takes the unknown for ended"):
		return eventstore.ErrGone
	case errors.Is(err, eventstore.ErrGone) && l.f.has("takes the ended for unknown"):
		return &eventstore.BehindError{}
	}
	return err
}

func (l *flawedLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	if l.f.has("refuses large appends") && len(events) > 100 {
		return eventstore.ErrFull
	}
	return l.lost(l.log("appends").Append(ctx, first, events, seal))
}

func (l *flawedLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	return l.log("reads").Read(ctx, after, buf, maxBytes)
}

func (l *flawedLog) Mark(m eventstore.Mark) { l.log("marks").Mark(m) }

func (l *flawedLog) Drop(ctx context.Context) error { return l.log("drops").Drop(ctx) }

func (l *flawedLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	if l.f.has("refuses large restores") && len(events) > 0 && len(events)*len(events[0]) > 1<<19 {
		return eventstore.ErrFull
	}
	return l.lost(l.log("restores").Restore(ctx, first, events, seal))
}
