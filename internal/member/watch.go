package member

import (
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
)

// Fate is what is known of a process that owns a session.
type Fate uint8

// The fates.
const (
	Alive Fate = iota // it may be alive
	Dead              // its sessions may be adopted
	// Replaced says that the process has left, or that another one has its address, by the last view of the directory. The owner of a session
	// may have joined after that view. So it counts only if the view was taken after the session was found.
	Replaced
)

// watch judges processes by the views that renewals return. It does no I/O and knows no clock. It is not safe for concurrent use.
type watch struct {
	lease   time.Duration
	asked   time.Time                 // when the last view was asked for
	members map[string]*sighting      // by incarnation: of the last view, and some of earlier ones
	newest  map[string]cluster.Member // by address
	missing map[string]time.Time      // processes that no view has had: since when they are asked for
}

// sighting is what was seen of a process.
type sighting struct {
	cluster.Member
	since time.Time // its count has not changed since
	last  time.Time // when a view last had it
}

// forgetAfter leases after a process was last seen or asked for it is forgotten. If it is asked for again, it has a whole lease again.
const forgetAfter = 20

func newWatch(lease time.Duration) watch {
	return watch{lease: lease, members: map[string]*sighting{}, newest: map[string]cluster.Member{}, missing: map[string]time.Time{}}
}

// see notes a view of the directory, which was asked for at the first time and came at the second. If it is long since the last one, the directory
// was away, perhaps for others too: then everybody has a whole lease again, as they have if the directory went back.
func (w *watch) see(asked, now time.Time, members []cluster.Member, back bool) {
	regained := back || asked.Sub(w.asked) > w.lease*2/3
	w.asked = asked
	clear(w.newest)
	for _, m := range members {
		if n, ok := w.newest[m.Self]; !ok || n.Generation < m.Generation {
			w.newest[m.Self] = m
		}
		s := w.members[m.Incarnation]
		if s == nil {
			s = &sighting{since: now}
			w.members[m.Incarnation] = s
			delete(w.missing, m.Incarnation)
		}
		if s.Count != m.Count {
			s.since = now
		}
		s.Member, s.last = m, now
	}
	for incarnation, s := range w.members {
		if regained {
			s.since = now
		}
		if now.Sub(s.last) > forgetAfter*w.lease {
			delete(w.members, incarnation)
		}
	}
	for incarnation, since := range w.missing {
		switch {
		case regained:
			w.missing[incarnation] = now
		case now.Sub(since) > forgetAfter*w.lease:
			delete(w.missing, incarnation)
		}
	}
}

// others returns the processes that may be alive by the last view, but for one.
func (w *watch) others(but string) (alive []cluster.Member) {
	for incarnation, s := range w.members {
		if incarnation != but && !s.Left && w.newest[s.Self].Incarnation == incarnation && w.asked.Sub(s.since) <= w.lease {
			alive = append(alive, s.Member)
		}
	}
	return alive
}

// fate judges a process, by the last view. What a process has done since then is not known, so a process is dead only if the view itself was asked
// for a lease after the count was seen that it shows.
func (w *watch) fate(now time.Time, owner cluster.Member) Fate {
	since, known := w.missing[owner.Incarnation]
	if s := w.members[owner.Incarnation]; s != nil {
		if s.Left {
			return Replaced
		}
		since, known = s.since, true
	}
	// An engine that went back may show an older process at the address for a while.
	if n := w.newest[owner.Self]; n.Generation > owner.Generation && n.Incarnation != owner.Incarnation {
		return Replaced
	}
	switch {
	case !known:
		w.missing[owner.Incarnation] = now
		return Alive
	case w.asked.Sub(since) > w.lease:
		return Dead
	}
	return Alive
}
