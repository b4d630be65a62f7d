//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"
)

// What must not be. Each is counted, and must be 0.
const (
	lost        = "events or results lost"
	doubled     = "events or calls doubled"
	disorder    = "events out of order"
	foreign     = "events of others, or that were never sent"
	twoMeanings = "numbers with two meanings"
	twoOwners   = "writes of two owners under one epoch, or of one that was replaced"
	killed      = "calls of living owners ended"
	late        = "calls that hung"
	notFound    = "404 for living sessions"
	refusals    = "requests refused without a cause"
	leftover    = "leftovers"
	acts        = "answers in a planned end that a client must act on"
)

var zeros = []string{lost, doubled, disorder, foreign, twoMeanings, twoOwners, killed, late, notFound, refusals, leftover, acts}

// These are counted apart: rejoin does not promise that they never happen.
const (
	apartBoth    = "lost in owner and engine together"
	apartNoID    = "connection lost before an event id: the call may have run"
	apartGaveUp  = "client gave up, and a poll brought the answer"
	apartLeft    = "client gave up and ended its session"
	apartRefused = "refused with 503 during a fault"
	apartFull    = "events refused for want of memory: mcp-go's server does not tell its tools"
	apartSlow    = "in a planned end, while the machine or the engine stood still"
	apartAside   = "events of the standalone stream that an owner which died had not recorded"
	apartLost    = "answered with owner_lost, though the tool had returned"
)

// evidence is all that the judge gets.
type evidence struct {
	Timing   timing
	Calls    []*record // their clients are done with them
	Tools    []entry
	Strikes  []strike
	Troubles []trouble
	Fronts   map[string][]string // of calls: the processes that the sprayer sent their requests to
	Stray    []fault             // that belong to no call
	Left     []string
	Planned  bool // there were planned ends only
}

// verdict is what the judge finds.
type verdict struct {
	Zeros   map[string]int
	Apart   map[string]int
	Found   []string // what is not 0, in words
	Answers map[string]int
	Faults  []*effect
}

// effect is what the faults of one kind have done.
type effect struct {
	Fault    string
	Times    int
	Affected int
	Answered int
	Errors   map[string]int  // by their reason
	Delays   []time.Duration // from the fault to the error of calls
}

// judge weighs the evidence. It is pure.
func judge(e *evidence) *verdict {
	j := &trial{evidence: e, v: &verdict{Zeros: map[string]int{}, Apart: map[string]int{}, Answers: map[string]int{}}}
	for _, z := range zeros {
		j.v.Zeros[z] = 0
	}
	j.gather()
	for _, r := range e.Calls {
		j.call(r)
	}
	for _, f := range e.Stray {
		j.foundf(f.What, "%s", f.Detail)
	}
	for _, l := range e.Left {
		j.foundf(leftover, "%s", l)
	}
	j.answers()
	j.owners()
	j.effects()
	return j.v
}

// trial is a judge at work.
type trial struct {
	*evidence

	v     *verdict
	tools map[string]*trace
	holds map[string][]entry // of keys of sessions: who became the owner, in order
}

// trace is what the oracle has of a call.
type trace struct {
	processes []string // that its tool began in
	sends     map[int]bool
	full      map[int]bool // events that rejoin refused
	returned  bool
	failed    string
	began     time.Time
	last      time.Time // the newest line
}

func (r *trace) owner() string {
	if r == nil || len(r.processes) == 0 {
		return ""
	}
	return r.processes[0]
}

const shownOfEach = 20

// foundf counts what must not be.
func (j *trial) foundf(what, format string, args ...any) {
	if j.v.Zeros[what]++; j.v.Zeros[what] <= shownOfEach {
		j.v.Found = append(j.v.Found, what+": "+fmt.Sprintf(format, args...))
	}
}

func (j *trial) apart(what string) { j.v.Apart[what]++ }

// gather sorts the oracle.
func (j *trial) gather() {
	slices.SortStableFunc(j.Tools, func(a, b entry) int { return int(a.At - b.At) })
	j.tools, j.holds = map[string]*trace{}, map[string][]entry{}
	for _, e := range j.Tools {
		if e.Do == owns || e.Do == adopts {
			j.holds[e.Session] = append(j.holds[e.Session], e)
		}
		if e.Call == "" {
			continue
		}
		r := j.tools[e.Call]
		if r == nil {
			r = &trace{sends: map[int]bool{}, full: map[int]bool{}}
			j.tools[e.Call] = r
		}
		r.last = time.Unix(0, e.At)
		switch e.Do {
		case toolBegan:
			r.processes = append(r.processes, e.Process)
			r.began = r.last
		case toolSends:
			r.sends[e.N] = true
		case toolFull:
			r.full[e.N] = true
		case toolReturns:
			r.returned = true
		case toolFailed:
			r.failed = e.Error
		}
	}
}

// call judges what the client of a call has seen.
func (j *trial) call(r *record) {
	t := j.tools[r.Name]
	for _, f := range r.Faults {
		j.foundf(f.What, "%s", f.Detail)
	}
	if t != nil && len(t.processes) > 1 {
		j.foundf(doubled, "%s ran in %v", r.Name, t.processes)
	}
	both := j.excusedBoth(r, t)
	j.events(r, t, both)
	j.asides(r, t)
	j.v.Answers[r.Kind+"\x00"+r.Outcome]++
	switch r.Outcome {
	case answered:
		if t == nil || !t.returned {
			j.foundf(foreign, "%s has a result, and its tool has not returned", r.Name)
		}
	case failed:
		j.failure(r, t, both)
	case noID:
		j.explain(r, t, apartNoID, killed)
	case refusedBy:
		if t != nil {
			j.foundf(lost, "%s was refused, and ran: %s", r.Name, r.Why)
		}
		j.explain(r, t, apartRefused, refusals)
	case gaveUp:
		j.givenUp(r, t, both)
	case gone, vanished:
		if both {
			j.apart(apartBoth)
		} else {
			j.foundf(lost, "%s: %s: %s", r.who(t), r.Outcome, r.Why)
		}
	}
	j.inTime(r, t)
}

// who describes a call in findings.
func (r *record) who(t *trace) string {
	return fmt.Sprintf("%s (%s in %s, session %.8s, owner %s, %s to %s)", r.Name, r.Kind, r.App, r.Session, t.owner(), clock(r.Begun), clock(r.Ended))
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

// events judges the events of a call.
func (j *trial) events(r *record, t *trace, both bool) {
	got := slices.Clone(r.Got)
	if r.Kind != "raw" && r.Kind != "client" { // libraries hand events over in goroutines of their own
		slices.Sort(got)
	} else if !slices.IsSorted(got) {
		j.foundf(disorder, "%s: %v", r.Name, got)
		slices.Sort(got)
	}
	if once := slices.Compact(slices.Clone(got)); len(once) != len(got) {
		j.foundf(doubled, "%s: %v", r.Name, got)
		got = once
	}
	for _, n := range got {
		if t == nil || !t.sends[n] || t.full[n] {
			j.foundf(foreign, "%s got event %d, which its tool has not sent, or was told that rejoin does not take", r.Name, n)
		}
	}
	due := r.Work.Events // all of which must have come if there is a result; else the first ones
	if r.Outcome != answered {
		due = 0
		if len(got) > 0 {
			due = got[len(got)-1] + 1
		}
	}
	var missing []int
	for n := range due {
		if !slices.Contains(got, n) && (t == nil || !t.full[n]) {
			missing = append(missing, n)
		}
	}
	switch {
	case len(missing) == 0:
	case both:
		j.apart(apartBoth)
	case r.App == "mcpgo" && j.during("memory", t.began, t.last):
		j.apart(apartFull)
	default:
		j.foundf(lost, "%s: %s: %v of %d events have not come", r.who(t), r.Outcome, missing, r.Work.Events)
	}
}

// during reports whether there was a fault of a kind in a time.
func (j *trial) during(fault string, from, to time.Time) bool {
	return slices.ContainsFunc(j.Strikes, func(s strike) bool { return s.Fault == fault && s.From.Before(to) && s.To.After(from) })
}

// asides judges the events of a call on the standalone stream. The call's result says how many there are; the engine may not have had them
// when their owner was struck.
func (j *trial) asides(r *record, t *trace) {
	got := slices.Clone(r.Asides)
	if !slices.IsSorted(got) {
		j.foundf(disorder, "%s on the standalone stream: %v", r.Name, got)
		slices.Sort(got)
	}
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		j.foundf(doubled, "%s on the standalone stream: %v", r.Name, got)
	}
	if r.Outcome != answered || !r.Listens || len(got) >= r.Due {
		return
	}
	if s := j.cause(r, r.Ended.Add(j.Timing.bound()), t.owner()); s != nil {
		j.apart(apartAside)
		return
	}
	if j.lostSession(r.Session, r.Ended) { // its client may have been told 404, and not listen any more
		j.apart(apartBoth)
		return
	}
	if r.App == "mcpgo" && j.during("memory", t.began, t.last) {
		j.apart(apartFull)
		return
	}
	j.foundf(lost, "%s: of %d events on the standalone stream %v came", r.who(t), r.Due, got)
}

// failure judges an error in place of a result.
func (j *trial) failure(r *record, t *trace, both bool) {
	s := j.cause(r, r.Ended, t.owner())
	switch {
	case j.Planned && j.slowAt(r.Begun, r.Ended):
		j.apart(apartSlow)
	case j.Planned:
		j.foundf(acts, "%s: %s", r.who(t), r.Why)
	case s == nil && both:
		j.apart(apartBoth)
	case s == nil:
		j.foundf(killed, "%s: %s", r.who(t), r.Why)
	case t != nil && t.returned:
		j.apart(apartLost)
	}
}

// explain counts the end of a call that a fault explains apart, and else as what.
func (j *trial) explain(r *record, t *trace, apart, what string) {
	s := j.cause(r, r.Ended, append([]string{t.owner()}, j.Fronts[r.Name]...)...)
	if s == nil && what == refusals {
		s = j.anyAt(r.Begun, r.Ended)
	}
	switch {
	case j.Planned && j.slowAt(r.Begun, r.Ended):
		j.apart(apartSlow)
	case j.Planned:
		j.foundf(acts, "%s: %s: %s", r.who(t), r.Outcome, r.Why)
	case s != nil:
		j.apart(apart)
	default:
		j.foundf(what, "%s through %v: %s: %s", r.who(t), j.Fronts[r.Name], r.Outcome, r.Why)
	}
}
