package eventstore

import (
	"bytes"
	"slices"
)

// model is the store as its documentation describes it: one slice, and a search for everything. Of the store it uses the charges
// and nothing else.
type model struct {
	m       *Memory
	logs    []*modelLog
	tenants map[string]*modelTenant
	clock   int
	evicted int64
}

// modelTenant is a principal, or a session without one.
type modelTenant struct {
	class  int
	has    [2]bool // logs of each kind
	queued [2]int  // when it came to be in its queues
}

func tenantOf(k Key) string {
	if k.Principal != "" {
		return "principal " + k.Principal
	}
	return k.Session
}

// held sums up a tenant.
func (d *model) held(name string) (used, evictable, unsent int64, has [2]bool) {
	seen := map[string]bool{}
	for _, l := range d.logs {
		if tenantOf(l.key) != name || !l.kept {
			continue
		}
		if !seen[l.key.Session] {
			seen[l.key.Session] = true
			used += sessionOverhead(l.key.Session)
		}
		used += l.charge()
		evictable += l.evictable()
		unsent += l.unsent()
		has[kindBacklog] = has[kindBacklog] || l.phase() == phaseBacklog
		has[kindUnwritten] = has[kindUnwritten] || l.phase() == phaseUnwritten
	}
	return used, evictable, unsent, has
}

// requeue notes when tenants came to be in their queues.
func (d *model) requeue() {
	for _, l := range d.logs {
		name := tenantOf(l.key)
		tn := d.tenants[name]
		if tn == nil {
			tn = &modelTenant{}
			d.tenants[name] = tn
		}
		used, _, _, has := d.held(name)
		class := classOf(used)
		for kind := range has {
			if has[kind] && (!tn.has[kind] || class != tn.class) {
				tn.queued[kind] = d.clock
			}
		}
		tn.class, tn.has = class, has
	}
}

func (l *modelLog) unsent() int64 {
	switch l.phase() {
	case phaseBacklog:
		return l.evictable() - l.ackedCharge()
	case phaseUnwritten:
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
	placed, ackedAt int // when it came to its phase, and to have acknowledged events
}

func (l *modelLog) phase() phase {
	switch {
	case !l.kept:
		return phaseNone
	case l.sealed && l.written >= l.last:
		return phaseWritten
	case l.sealed:
		return phaseUnwritten
	case l.backlog && len(l.events) > 0:
		return phaseBacklog
	}
	return phaseRunning
}

func (l *modelLog) hasAcked() bool { return l.kept && len(l.events) > 0 && l.first <= l.acked }

// change does f, and notes when that changed the log's phase or gave it acknowledged events.
func (d *model) change(l *modelLog, f func()) {
	was, acked := l.phase(), l.hasAcked()
	f()
	d.clock++
	if l.phase() != was {
		l.placed = d.clock
	}
	if l.hasAcked() && !acked {
		l.ackedAt = d.clock
	}
	d.requeue()
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

func (l *modelLog) evictable() int64 {
	switch l.phase() {
	case phaseWritten, phaseUnwritten:
		return l.charge()
	case phaseBacklog:
		return charges(l.events)
	case phaseRunning:
		if l.hasAcked() {
			return charges(l.events[:l.acked-l.first+1])
		}
	}
	return 0
}

func sessionOverhead(name string) int64 { return sessionCharge + heapSize(len(name)) }

// count sums up one session, or all of them.
func (d *model) count(session *string) (used, evictable int64) {
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
		evictable += l.evictable()
	}
	return used, evictable
}

// victim returns what the first rule finds that finds something. In the store, unsent events are evicted from the tenants of the highest
// class, but of none below least, or else from those that have given already, by any rule.
func (d *model) victim(session *string, least int, from *[]string) (*modelLog, rule) {
	oldest := func(fits func(*modelLog) bool, age func(*modelLog) int) (first *modelLog) {
		for _, l := range d.logs {
			if (session == nil || l.key.Session == *session) && fits(l) && (first == nil || age(l) < age(first)) {
				first = l
			}
		}
		return first
	}
	placed := func(l *modelLog) int { return l.placed }
	is := func(p phase) func(*modelLog) bool { return func(l *modelLog) bool { return l.phase() == p } }
	if l := oldest((*modelLog).hasAcked, func(l *modelLog) int { return l.ackedAt }); l != nil {
		return l, ruleAcked
	}
	if l := oldest(is(phaseWritten), placed); l != nil {
		return l, ruleWritten
	}
	if session != nil {
		if l := oldest(is(phaseBacklog), placed); l != nil {
			return l, ruleBacklog
		}
		if l := oldest(is(phaseUnwritten), placed); l != nil {
			return l, ruleUnwritten
		}
		return nil, ruleNone
	}
	of := func(name string, kind int) (*modelLog, rule) {
		p, by := phaseBacklog, ruleBacklog
		if kind == kindUnwritten {
			p, by = phaseUnwritten, ruleUnwritten
		}
		return oldest(func(l *modelLog) bool { return tenantOf(l.key) == name && l.phase() == p }, placed), by
	}
	for class := classes; class >= least; class-- {
		for kind := range 2 {
			first := ""
			for name, tn := range d.tenants {
				if tn.class == class && tn.has[kind] && (first == "" || tn.queued[kind] < d.tenants[first].queued[kind]) {
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
			if l, by := of(name, kind); l != nil {
				return l, by
			}
		}
	}
	return nil, ruleNone
}

func (d *model) evict(l *modelLog, by rule) {
	d.change(l, func() {
		n := 1
		if by == ruleWritten || by == ruleUnwritten {
			n = len(l.events)
		}
		d.evicted += int64(n)
		l.events = l.events[n:]
		l.first += uint64(n)
		if l.sealed && len(l.events) == 0 {
			l.kept = false
		}
	})
}

// hadTurn puts a backlog and its tenant last, because an event of it was evicted for others.
func (d *model) hadTurn(l *modelLog, by rule) {
	if by == ruleBacklog && l.phase() == phaseBacklog {
		d.clock++
		l.placed = d.clock
		d.tenants[tenantOf(l.key)].queued[kindBacklog] = d.clock
	}
}

// behindError is a BehindError that can be compared.
type behindError BehindError

func (behindError) Error() string { return "behind" }

// put is an Append or a Restore.
func (d *model) put(l *modelLog, first uint64, events [][]byte, seal, restore bool) error {
	missing, done, err := l.missing(first, events, seal, restore)
	if done || err != nil {
		return err
	}
	e := charges(missing)
	if restore {
		e -= l.charge() - l.evictable() - l.overheadIfKept() // what is replaced and could not be evicted
	}
	if err := d.room(l, e, seal); err != nil {
		return err
	}
	d.change(l, func() {
		if restore {
			l.first, l.last, l.events = first, first-1, nil
		}
		l.events = append(slices.Clip(l.events), missing...)
		l.last += uint64(len(missing))
		l.kept = true
		l.sealed = seal
	})
	return nil
}

// missing returns the events that are to be recorded. done: there is nothing to do.
func (l *modelLog) missing(first uint64, events [][]byte, seal, restore bool) (missing [][]byte, done bool, err error) {
	last := first + uint64(len(events)) - 1
	// same reports whether the log has event seq as it is given.
	same := func(seq uint64) bool {
		return seq < l.first || seq < first || bytes.Equal(l.events[seq-l.first], events[seq-first])
	}
	switch {
	case l.gone:
		return nil, false, ErrGone
	case first == 0:
		return nil, false, ErrSequence
	case restore && l.sealed && seal && last == l.last && same(last):
		return nil, true, nil
	case restore && (l.sealed || last < l.last || last == 0 && seal):
		return nil, false, ErrSequence
	case restore:
		return events, false, nil
	case len(events) == 0 && seal:
		return nil, false, ErrSequence
	case first > l.last+1 && l.sealed:
		return nil, false, ErrSealed
	case first > l.last+1:
		return nil, false, behindError{Last: l.last}
	case len(events) == 0:
		return nil, l.kept || l.last > 0, nil
	case last <= l.last && same(last) && seal == (l.sealed && last == l.last):
		return nil, true, nil
	case l.sealed:
		return nil, false, ErrSealed
	case last <= l.last, !same(l.last):
		return nil, false, ErrSequence
	}
	return events[l.last+1-first:], false, nil
}

func (l *modelLog) overheadIfKept() int64 {
	if !l.kept {
		return 0
	}
	return l.overhead()
}

// room makes room for events of charge e.
func (d *model) room(l *modelLog, e int64, seal bool) error {
	if e <= 0 && l.kept {
		return nil
	}
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
	sessionUsed, sessionEvictable := d.count(&l.key.Session)
	used, evictable := d.count(nil)
	own := tenantOf(l.key)
	mayExceed := func() bool {
		used, evictable := d.count(nil)
		mine, myEvictable, _, _ := d.held(own)
		return mine-myEvictable+logCost+extra() <= min(smallBytes, d.m.total/1024) && used-evictable+logCost+extra() <= d.m.total+d.m.total/4
	}
	if !seal {
		mine, myEvictable, _, _ := d.held(own)
		for name, tn := range d.tenants {
			if _, _, unsent, _ := d.held(name); name != own && tn.class < classOf(mine+logCost+extra()) {
				evictable -= unsent // of those that hold less
			}
		}
		_, all := d.count(nil)
		switch {
		case l.backlog && e > d.m.perBacklog, sessionUsed-sessionEvictable+logCost+extra() > d.m.perSession:
			return ErrFull
		case l.key.Principal != "" && !l.backlog && mine-myEvictable+logCost+extra() > d.m.total-(used-all) && !mayExceed():
			return ErrFull
		case used-evictable+logCost+extra() > d.m.total && !mayExceed():
			return ErrFull
		}
	}
	if l.backlog && !seal {
		for charges(l.events)+e > d.m.perBacklog {
			d.evict(l, ruleBacklog) // trimming to its own limit is not a turn
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
			v, by := d.victim(scope, class, &from)
			if v == nil {
				break // only for a seal, and an event that may exceed the limit
			}
			giver := tenantOf(v.key)
			was := d.tenants[giver].class
			d.evict(v, by)
			d.hadTurn(v, by)
			if now := d.tenants[giver]; scope == nil && was >= class && now.class < class && now.has != [2]bool{} && !slices.Contains(from, giver) {
				from = append(from, giver) // it held enough before it gave
			}
		}
	}
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
	d.requeue()
}
