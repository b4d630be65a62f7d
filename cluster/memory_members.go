package cluster

import (
	"context"
	"sync"
	"time"
)

// leases is how many leases an entry is kept after its last renewal.
const leases = 4

// members are the entries of processes, by cluster and Self.
type members struct {
	mu sync.Mutex
	of map[string]map[string]*entry
}

type entry struct {
	Member
	expires time.Time
}

func (e *entry) extend(now time.Time, lease time.Duration) { e.expires = now.Add(leases * lease) }

// cluster returns the entries of a cluster, without those that have expired. The mu is held.
func (m *members) cluster(name string, now time.Time) map[string]*entry {
	if m.of == nil {
		m.of = make(map[string]map[string]*entry)
	}
	for cluster, all := range m.of {
		for self, e := range all {
			if !now.Before(e.expires) {
				delete(all, self)
			}
		}
		if len(all) == 0 && cluster != name {
			delete(m.of, cluster)
		}
	}
	if m.of[name] == nil {
		m.of[name] = make(map[string]*entry)
	}
	return m.of[name]
}

// find returns the entry of a process, or nil. The mu is held.
func (m *members) find(p Process, now time.Time) *entry {
	e := m.of[p.Cluster][p.Self]
	if e == nil || e.Incarnation != p.Incarnation || !now.Before(e.expires) {
		return nil
	}
	return e
}

func (m *members) count(p Process) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.find(p, time.Now()); e != nil {
		return e.Count
	}
	return 0
}

// Join implements Directory.
func (m *Memory) Join(ctx context.Context, mine Member, lease time.Duration) (Member, error) {
	w, err := m.enter(ctx)
	if err != nil {
		return Member{}, err
	}
	w.members.mu.Lock()
	defer w.members.mu.Unlock()
	now := time.Now()
	e, err := own(w.members.cluster(mine.Cluster, now), mine)
	if err == nil {
		e.extend(now, lease)
	}
	return e.Member, err
}

// own returns the entry of a process, and makes one if there is none or an older one. If a newer process has the Self, it returns that one's entry
// and ErrSuperseded.
func own(all map[string]*entry, mine Member) (*entry, error) {
	e := all[mine.Self]
	switch {
	case e == nil || e.Generation < mine.Generation:
		e = &entry{Member: Member{Process: mine.Process, Generation: mine.Generation}}
		all[mine.Self] = e
	case e.Generation > mine.Generation || e.Incarnation != mine.Incarnation:
		return e, ErrSuperseded
	}
	return e, nil
}

// Renew implements Directory.
func (m *Memory) Renew(ctx context.Context, mine Member, lease time.Duration) (View, error) {
	w, err := m.enter(ctx)
	if err != nil {
		return View{}, err
	}
	w.members.mu.Lock()
	defer w.members.mu.Unlock()
	now := time.Now()
	all := w.members.cluster(mine.Cluster, now)
	e, err := own(all, mine)
	if err != nil {
		return View{}, err
	}
	v := View{Was: e.Count, Members: make([]Member, 0, len(all))}
	e.Count = max(e.Count, mine.Count)
	e.Left = e.Left || mine.Left
	e.extend(now, lease)
	for _, e := range all {
		v.Members = append(v.Members, e.Member)
	}
	return v, nil
}

// Leave implements Directory.
func (m *Memory) Leave(ctx context.Context, mine Member) error {
	w, err := m.enter(ctx)
	if err != nil {
		return err
	}
	w.members.mu.Lock()
	defer w.members.mu.Unlock()
	if e := w.members.find(mine.Process, time.Now()); e != nil {
		e.Left = true
	}
	return nil
}
