package torture_test

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// wire is one HTTP request to a machine, and what has come back of its response. It is the ResponseWriter, too.
type wire struct {
	p         *machine
	cancel    context.CancelFunc
	head      http.Header
	forwarded atomic.Bool // the machine has forwarded it

	mu     sync.Mutex
	before cluster.Record // the owner of the session when the machine got the request
	nth    int            // the how many-th
	status int
	buf    []byte
	broken bool          // the machine was killed, or the client has cut it
	over   bool          // nothing more will come
	wake   chan struct{} // something has come
}

// event is one event of a stream. Its zero value is a comment.
type event struct {
	id, data string
	retry    time.Duration
}

// send sends a request to a machine. It returns nil if that is dead.
func (tt *torture) send(p *machine, method, session, cursor, body string) *wire {
	x := &wire{p: p, head: http.Header{}, wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), wireKey{}, x))
	x.cancel = cancel
	r, _ := http.NewRequestWithContext(ctx, method, "http://x/mcp", strings.NewReader(body))
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	for name, value := range map[string]string{"Mcp-Session-Id": session, "Last-Event-Id": cursor} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if p.dead || p.closed {
		cancel()
		return nil
	}
	p.wires[x] = true
	go func() {
		tt.awake(p)
		before, nth := tt.engine.owner(kit.KeyOf(session))
		x.mu.Lock()
		x.before, x.nth = before, nth
		x.mu.Unlock()
		p.Serve(frozen{x, tt}, r)
		tt.mu.Lock()
		delete(p.wires, x)
		tt.mu.Unlock()
		x.end(false)
	}()
	return x
}

func (x *wire) Header() http.Header { return x.head }

func (x *wire) WriteHeader(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.status = status
		x.poke()
	}
}

func (x *wire) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return 0, http.ErrAbortHandler
	}
	if x.status == 0 {
		x.status = http.StatusOK
	}
	x.buf = append(x.buf, p...)
	x.poke()
	return len(p), nil
}

func (x *wire) Flush() {}

// poke wakes the reader. The mu is held.
func (x *wire) poke() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// end ends the response. broken: before its end.
func (x *wire) end(broken bool) {
	x.cancel()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	x.over, x.broken = true, broken
	if x.status == 0 && !broken {
		x.status = http.StatusOK
	}
	x.poke()
}

// served returns the owner of the session when the machine got the request, and the how many-th it was.
func (x *wire) served() (before cluster.Record, nth int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.before, x.nth
}

// wait waits until ready, or the end of the response, or a moment. It returns false then.
func (x *wire) wait(until time.Time, ready func() bool) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		x.mu.Lock()
		done := x.over || ready()
		x.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-x.wake:
		case <-timer.C:
			return false
		}
	}
}

// answer waits for the head of the response. 0: it did not come.
func (x *wire) answer(until time.Time) int {
	x.wait(until, func() bool { return x.status != 0 })
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status
}

// body waits for the whole response.
func (x *wire) body(until time.Time) (body string, whole bool) {
	x.wait(until, func() bool { return false })
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.buf), x.over && !x.broken
}

// next waits for the next event. more is false if none came until then, or the response has ended.
func (x *wire) next(until time.Time) (e event, more bool) {
	x.wait(until, func() bool { return bytes.Contains(x.buf, []byte("\n\n")) })
	x.mu.Lock()
	defer x.mu.Unlock()
	raw, rest, more := bytes.Cut(x.buf, []byte("\n\n"))
	if !more {
		return e, false
	}
	x.buf = rest
	for line := range strings.Lines(string(raw)) {
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "retry":
			ms, _ := strconv.Atoi(value)
			e.retry = time.Duration(ms) * time.Millisecond
		}
	}
	return e, true
}

// state tells whether the response has ended, and how.
func (x *wire) state() (over, broken bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.over, x.broken
}

// place splits an event id. nonce: it is a primer's, or of an error that is not in the log.
func place(id string) (stream string, seq uint64, nonce, ok bool) {
	stream, seq, ok = kit.Position(id)
	return stream, seq, strings.Count(id, ".") > 1, ok
}
