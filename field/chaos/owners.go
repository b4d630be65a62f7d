//go:build unix

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"
)

// keyOf returns the name of a session in the directory, as rejoin makes it.
func keyOf(app, session string) string {
	sum := sha256.Sum256([]byte(session))
	return app + "/" + base64.RawURLEncoding.EncodeToString(sum[:20])
}

// place of an event in the engine.
type position struct {
	session, stream string
	n               int
}

// fence is who writes.
type fence struct {
	incarnation string
	epoch       uint64
}

// owners judges what the engine has taken, and from whom.
//
// An owner that makes the record or adopts the session holds it from then on. A write of another one that begins after that, and that the engine
// takes, is proof of two owners, unless that other one has become the owner again, or the engine has gone back to before the adoption. Only
// operations whose order is known prove something: each has a beginning and an end.
func (j *trial) owners() {
	meanings := map[position]uint64{}
	writes := map[string][]entry{}
	for _, e := range j.Tools {
		if e.Do == owns {
			writes[e.Session] = append(writes[e.Session], e)
		}
		if e.Do != wrote {
			continue
		}
		at := position{e.Session, e.Stream, e.N}
		if sum, known := meanings[at]; known && sum != e.Sum {
			j.foundf(twoMeanings, "the engine took two events as number %d of stream %s in %s, the second from %s", e.N, e.Stream, e.Session, e.Process)
		}
		meanings[at] = e.Sum
		writes[e.Session] = append(writes[e.Session], e)
	}
	for session, all := range writes {
		j.writesOf(session, all)
	}
}

func fenceOf(e *entry) fence { return fence{e.Incarnation, e.Epoch} }

func (j *trial) writesOf(session string, writes []entry) {
	claims := slices.Clone(j.holds[session])
	slices.SortFunc(claims, func(a, b entry) int { return cmp.Compare(a.Began, b.Began) })
	for _, w := range writes {
		for _, other := range claims {
			if fenceOf(&other) == fenceOf(&w) || other.At > w.Began {
				continue // it may have come after the write
			}
			again := slices.ContainsFunc(claims, func(c entry) bool {
				return c.Do == adopts && fenceOf(&c) == fenceOf(&w) && c.At > other.Began && c.Began < w.At
			})
			if again || j.wentBack(other.Began, w.At) {
				continue
			}
			j.foundf(twoOwners, "%s %s number %d of stream %q in %s under epoch %d at %s, after %s had become the owner under epoch %d at %s",
				w.Process, w.Do, w.N, w.Stream, session, w.Epoch, clockOf(w.Began), other.Process, other.Epoch, clockOf(other.At))
			break
		}
	}
}

// wentBack reports whether the engine has lost data between two moments.
func (j *trial) wentBack(from, to int64) bool {
	return slices.ContainsFunc(j.Strikes, func(s strike) bool { return s.Loses && s.To.UnixNano() > from && s.From.UnixNano() < to })
}

func clockOf(nanoseconds int64) string { return clock(time.Unix(0, nanoseconds)) }
