//go:build unix

package main

import (
	"net/http"
	"slices"
	"time"
)

// cause returns the fault that explains why one of the processes could not do its part for a call before an end; nil: there is none.
func (j *trial) cause(r *record, end time.Time, processes ...string) *strike {
	for i := range slices.Backward(j.Strikes) { // the newest has most to do with it
		s := &j.Strikes[i]
		if s.From.After(end) || s.To.Add(j.Timing.bound()).Before(r.Begun) {
			continue
		}
		for _, p := range processes {
			if p != "" && slices.Contains(s.Targets, p) || s.Fault == stalled {
				return s
			}
		}
		if len(processes) > 0 && processes[0] == "" && len(s.Targets) > 0 { // it never began, so its owner is not known
			return s
		}
	}
	return nil
}

// slowAt reports whether the machine or the engine stood still by itself in a time, or less than a lease before.
func (j *trial) slowAt(from, to time.Time) bool {
	return slices.ContainsFunc(j.Strikes, func(s strike) bool {
		return (s.Fault == stalled || s.Fault == slowEngine) && s.From.Before(to) && s.To.Add(j.Timing.Lease).After(from)
	})
}

// anyAt returns a fault whose effects fall into a time.
func (j *trial) anyAt(from, to time.Time) *strike {
	for i := range slices.Backward(j.Strikes) {
		if s := &j.Strikes[i]; !s.From.After(to) && !s.To.Add(j.Timing.bound()).Before(from) {
			return s
		}
	}
	return nil
}

// excusedBoth reports whether a call may have been lost in its owner and the engine together.
func (j *trial) excusedBoth(r *record, t *trace) bool {
	for _, s := range j.Strikes {
		if s.Both && !s.From.After(r.Ended) && !s.To.Add(j.Timing.bound()).Before(r.Begun) &&
			(slices.Contains(s.Targets, t.owner()) || slices.ContainsFunc(s.Targets, func(p string) bool { return j.held(r.Session, p) })) {
			return true
		}
	}
	return false
}

// held reports whether a process ever owned a session.
func (j *trial) held(session, process string) bool {
	for _, app := range appNames {
		if slices.ContainsFunc(j.holds[keyOf(app, session)], func(e entry) bool { return e.Process == process }) {
			return true
		}
	}
	return false
}

// inTime judges when a call has ended. Each fault may delay it until its cause is gone, and then for as long as is promised.
func (j *trial) inTime(r *record, t *trace) {
	due := r.Begun.Add(r.Work.planned())
	if t != nil && t.last.After(due) {
		due = t.last // the machine was slow
	}
	due = due.Add(j.Timing.bound())
	for _, s := range j.Strikes { // in order
		if s.From.Before(due) && s.To.After(r.Begun) {
			due = later(due, s.To.Add(j.Timing.bound()))
		}
	}
	if r.Kind != "raw" && r.Kind != "client" {
		due = due.Add(patience) // waits of its library
	}
	if r.Outcome == hung || r.Ended.After(due) {
		j.foundf(late, "%s: %s: %s, due at %s", r.who(t), r.Outcome, r.Why, clock(due))
	}
}

// patience is how long libraries wait of their own accord before they poll, in all.
const patience = 30 * time.Second

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// givenUp judges a call that its client gave up by rules of its own. A poll has asked for it then.
func (j *trial) givenUp(r *record, t *trace, both bool) {
	switch r.Rescue {
	case answered:
		j.apart(apartGaveUp)
	case "its client has ended the session":
		j.apart(apartLeft)
	case gone, vanished, hung, noID:
		if both {
			j.apart(apartBoth)
			return
		}
		j.foundf(lost, "%s: its client gave up (%s), and a poll: %s", r.who(t), r.Why, r.Rescue)
	default:
		again := &record{Name: r.Name, Kind: r.Kind, App: r.App, Session: r.Session, Begun: r.Begun, Ended: r.Ended, Why: r.Rescue}
		j.failure(again, t, both)
		j.apart(apartGaveUp)
	}
	if j.Planned {
		j.foundf(acts, "%s: %s", r.who(t), r.Why)
	}
}

// answers judges the answers that clients may have to act on.
func (j *trial) answers() {
	for _, t := range j.Troubles {
		if t.Ended || t.Session != "" && t.Idle > j.Timing.IdleTTL {
			continue
		}
		switch {
		case t.Status == http.StatusNotFound && t.Session != "":
			if j.lostSession(t.Session, t.At) {
				j.apart("404 for a session that was lost in owner and engine together")
				continue
			}
			j.foundf(notFound, "%s of session %.8s at %s through %v: %s", t.Method, t.Session, clock(t.At), t.Fronts, t.Body)
		case t.Status == http.StatusBadRequest:
			j.foundf(lost, "%s of session %.8s at %s through %v: 400 %s", t.Method, t.Session, clock(t.At), t.Fronts, t.Body)
		case j.Planned && j.slowAt(t.Began, t.At):
			j.apart(apartSlow)
		case j.Planned:
			j.foundf(acts, "status %d to a %s of session %.8s at %s through %v: %s", t.Status, t.Method, t.Session, clock(t.At), t.Fronts, t.Body)
		case t.Status >= http.StatusInternalServerError && j.anyAt(t.Began, t.At) == nil:
			j.foundf(refusals, "status %d to a %s of session %.8s at %s through %v: %s", t.Status, t.Method, t.Session, clock(t.At), t.Fronts, t.Body)
		}
	}
}

// lostSession reports whether a session may have been lost in its owner and the engine together before a time.
func (j *trial) lostSession(session string, at time.Time) bool {
	for _, s := range j.Strikes {
		if s.Both && s.From.Before(at) && slices.ContainsFunc(s.Targets, func(p string) bool { return j.held(session, p) }) {
			return true
		}
	}
	return false
}
