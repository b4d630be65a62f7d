package torture_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// follower reads one stream of a client: that of a call, or the standalone stream. It checks each event.
type follower struct {
	c      *client
	name   string   // of the call; "": the standalone stream
	taken  int      // how often the session had been taken from an owner
	by     *machine // that got its last request
	cursor string
	retry  time.Duration

	next     map[string]int  // by run: the number of its next message
	unnamed  map[string]bool // data that has come without an id only
	again    bool            // it reads what has come before
	ids      []string        // of events, in order
	heard    []event         // all but messages
	answered bool
	answer   string // data of the response, if it had an id
}

func newFollower(c *client, name string) *follower {
	return &follower{c: c, name: name, taken: c.tt.engine.taken(c.key), next: map[string]int{}, unnamed: map[string]bool{}}
}

func (f *follower) fault(format string, args ...any) {
	f.c.tt.fault("%s %s: "+format, append([]any{f.c.name, f.name}, args...)...)
}

// lossy reports whether data of the session may be lost.
func (f *follower) lossy() bool {
	t := f.c.tt.taleOf(f.c.key)
	f.c.tt.mu.Lock()
	defer f.c.tt.mu.Unlock()
	if by := f.by; by != nil && !by.deadline.IsZero() && !time.Now().Before(by.deadline) {
		return true // the time of the process that has forwarded the request is over
	}
	return t.lossy || t.lost
}

// excused reports whether a fault explains that a call has ended without its result.
func (f *follower) excused() bool {
	tt := f.c.tt
	owner, _ := tt.engine.owner(f.c.key)
	taken := tt.engine.taken(f.c.key)
	t := tt.taleOf(f.c.key)
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if tt.isDead(owner.Fence.Incarnation) {
		return true // the process that has forwarded the request says so
	}
	return t.lossy || t.lost || t.gone || t.deleted || t.cancelled[f.name] || taken > f.taken || tt.ranTooLong(f.name) || tt.closing()
}

// closing reports whether a process was closed before its calls had ended. The mu is held.
func (tt *torture) closing() bool {
	return slices.ContainsFunc(slices.Concat(tt.graves, tt.slots), func(p *machine) bool { return p.closing })
}

// reading is one connection.
type reading struct {
	*follower

	stream string
	pos    uint64
	fresh  bool   // nothing has come
	loose  uint64 // events that have come without an id
}

// follow reads a connection until the response, until it ends, or until the client cuts it.
func (f *follower) follow(x *wire) {
	f.by = x.p
	if !strings.HasPrefix(x.head.Get("Content-Type"), "text/event-stream") {
		body, whole := x.body(time.Now().Add(patience))
		if whole {
			f.terminal(body, false)
		}
		return
	}
	f.retry = 500 * time.Millisecond
	r := &reading{follower: f, fresh: true}
	r.stream, r.pos, _, _ = place(f.cursor)
	until := time.Now().Add(time.Hour)
	if f.c.dice(4) == 0 {
		until = time.Now().Add(time.Duration(f.c.dice(5000)) * time.Millisecond)
	}
	for !f.answered {
		step := time.Now().Add(time.Second)
		if f.cursor == "" { // it could not come back
			until = until.Add(time.Second)
		}
		if until.Before(step) {
			step = until
		}
		e, more := x.next(step)
		if more {
			r.take(&e)
			continue
		}
		over, _ := x.state()
		if over || f.c.tt.failed() || !time.Now().Before(until) || f.name == "" && (f.c.isOver() || f.c.gone()) || f.c.late(f.name+" reads") {
			break
		}
	}
	x.end(true)
}

// take checks an event.
func (r *reading) take(e *event) {
	if e.retry > 0 {
		r.retry = e.retry
	}
	stream, seq, nonce, named := place(e.id)
	if e.data == "" {
		r.heard = append(r.heard, *e)
	}
	switch {
	case e.data == "" && e.id == "":
		return
	case e.data == "": // a primer
		if named {
			if r.fresh && r.name != "" && r.stream != "" && (stream != r.stream || seq != r.pos) {
				r.fault("the primer is %s, after the cursor %s", e.id, r.cursor)
			}
			if r.name != "" && r.stream != "" && (stream != r.stream || seq < r.pos) {
				r.fault("the primer is %s, after %s", e.id, r.cursor)
			}
			r.stream, r.pos = stream, seq
		}
		r.cursor = e.id
	case named && nonce: // an error in place of what is not in the log
		r.meaning(e)
		r.cursor = e.id
	case named:
		if r.stream != "" && stream == r.stream && seq != r.pos+1 && !r.lossy() {
			r.fault("event %d follows %d", seq, r.pos)
		}
		if r.stream == "" { // what came before had no id
			r.stream = stream
			if seq != r.pos+1 && !r.lossy() {
				r.fault("event %s comes after %d others", e.id, r.pos)
			}
		}
		if stream != r.stream && (r.name != "" && r.stream != "" || seq > 1+r.loose && !r.lossy()) {
			r.fault("event %s comes after %s", e.id, r.cursor)
		}
		r.meaning(e)
		r.stream, r.pos, r.cursor = stream, seq, e.id
		r.ids = append(r.ids, e.id)
	}
	if e.data != "" && !named {
		r.loose++
		r.pos++ // the client knows only that something has come
	}
	r.fresh = false
	if e.data != "" {
		r.payload(e, named)
	}
}

// meaning checks that an event id means the same event for everybody.
func (f *follower) meaning(e *event) {
	tt := f.c.tt
	// Such an error stands in place of an event that cannot be read, or is gone.
	if strings.Contains(e.data, `"reason":"store"`) || strings.Contains(e.data, `"reason":"expired"`) {
		return
	}
	tt.mu.Lock()
	defer tt.mu.Unlock()
	is := f.c.key + " " + f.name + " " + e.data
	if was, ok := tt.meanings[e.id]; ok && was != is {
		f.fault("the event id %s means %q, and has meant %q", e.id, is, was)
	}
	tt.meanings[e.id] = is
}

// payload checks what an event says.
func (f *follower) payload(e *event, named bool) {
	var m struct {
		Method string
		ID     any
		Params struct {
			Run   string
			N     int
			Aside bool
		}
	}
	if err := json.Unmarshal([]byte(e.data), &m); err != nil {
		f.fault("%q is not JSON", e.data)
		return
	}
	if m.Method == "" {
		f.terminal(e.data, named)
		return
	}
	tt := f.c.tt
	tt.mu.Lock()
	is := tt.runs[m.Params.Run]
	tt.mu.Unlock()
	switch next := f.next[m.Params.Run]; {
	case is == nil || is.session != f.c.key:
		f.fault("it gets an event of another session: %s", e.data)
	case f.name == "" && !m.Params.Aside && f.wasCancelled(m.Params.Run): // what a tool sends after the end of its call
	case m.Params.Aside != (f.name == "") || f.name != "" && m.Params.Run != f.name:
		f.fault("it gets an event of another stream: %s", e.data)
	case m.Params.N == next:
		f.next[m.Params.Run]++
		f.unnamed[e.data] = !named
	case m.Params.N < next && (f.again || f.unnamed[e.data]):
		f.unnamed[e.data] = !named
	case m.Params.N > next && (f.lossy() || f.name == "" && next == 0):
		f.next[m.Params.Run] = m.Params.N + 1
		f.unnamed[e.data] = !named
	default:
		f.fault("message %d comes, and %d should be next (with an id: %v)", m.Params.N, next, named)
	}
}

// terminal checks the response.
func (f *follower) terminal(data string, named bool) {
	var m struct {
		ID     any
		Result *struct {
			Run      string
			N, State int
		}
		Error *struct {
			Message string
			Data    struct{ Reason string }
		}
	}
	_ = json.Unmarshal([]byte(data), &m)
	tt := f.c.tt
	tt.say("%s: %.160s", f.name, data)
	if m.ID != f.name && m.ID != nil {
		f.fault("the response is to %v", m.ID)
	}
	if f.answer != "" && data != f.answer && !f.lossy() && !strings.Contains(f.answer+data, `"reason":"store"`) { // it could not be read once
		f.fault("the response was %s and is %s", f.answer, data)
	}
	f.answered = true
	if named {
		f.answer = data
	}
	switch {
	case m.Result != nil:
		tt.mu.Lock()
		t, is := tt.tale(f.c.key), tt.runs[f.name]
		t.promised = max(t.promised, m.Result.State)
		sent := -1
		if is != nil && is.over {
			sent = is.sent
		}
		tt.mu.Unlock()
		switch {
		case m.Result.Run != f.name || sent != m.Result.N:
			f.fault("the result is %s", data)
		case f.next[f.name] != sent && !f.lossy():
			f.fault("%d messages were sent, and %d have come", sent, f.next[f.name])
		}
	case m.Error == nil:
		f.fault("neither a result nor an error: %s", data)
	case !f.excused():
		switch reason := m.Error.Data.Reason; {
		case reason == "store" && (tt.moods.cuts || tt.moods.single || tt.moods.kills || tt.moods.stalls):
		case reason == rejoin.ReasonOwnerLost && tt.isParted():
		case reason == rejoin.ReasonUnreachable && !tt.moods.planned: // the process that got it may not know yet who owns the session
		default:
			f.fault("it fails, and nothing explains it: %s", data)
		}
	}
}

// noCursor is what becomes of a call whose connection has ended before it had any event id.
func (f *follower) noCursor(x *wire) {
	f.c.tt.say("%s: its connection has ended, and it has no cursor", f.name)
	f.c.tt.mu.Lock()
	dead := x.p.dead
	f.c.tt.mu.Unlock()
	if _, broken := x.state(); !broken && !dead && !f.excused() && !f.c.tt.isParted() {
		f.fault("the response ends without an event id, after %q", f.heard)
	}
}

// refused is what becomes of a call whose poll gets no stream.
func (f *follower) refused(status int) {
	if status == http.StatusNoContent && f.excused() && (f.lossy() || f.isCancelled()) {
		f.c.tt.say("%s: nothing is left", f.name)
		return
	}
	f.fault("a poll with %s gets %d", f.cursor, status)
}

func (f *follower) isCancelled() bool {
	t := f.c.tt.taleOf(f.c.key)
	f.c.tt.mu.Lock()
	defer f.c.tt.mu.Unlock()
	return t.cancelled[f.name] || t.deleted || t.gone
}

func (f *follower) wasCancelled(name string) bool {
	t := f.c.tt.taleOf(f.c.key)
	f.c.tt.mu.Lock()
	defer f.c.tt.mu.Unlock()
	return t.cancelled[name]
}

// replay reads a call again whose response has come. What it gets must be the same.
func (f *follower) replay() {
	if len(f.ids) < 2 || f.c.gone() {
		return
	}
	again := newFollower(f.c, f.name)
	at := f.c.dice(len(f.ids) - 1)
	again.again, again.cursor, again.answer, again.taken = true, f.ids[at], f.answer, f.taken
	maps.Copy(again.next, f.next)
	for range 400 { // each takes half a second, and the owner may be away
		x, status := f.c.request(f.name+" again", http.MethodGet, again.cursor, "", true)
		if x == nil || status != http.StatusOK {
			return
		}
		again.follow(x)
		if again.answered || f.c.tt.failed() {
			return
		}
		f.c.forgetOwner(x.p) // perhaps it holds the stream
		kit.Elapse(again.retry)
	}
	if !f.isCancelled() {
		f.fault("read again, it brings no response")
	}
}
