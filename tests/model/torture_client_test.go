package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// follower is a client of one stream, over all connections that read it. Unlike rejointest.Call it reads its old connections to their end. It checks
// what the server promises about each connection: it begins with a primer at the requested position; the events that follow have no gap and are the
// same as on every other connection; it ends between two events, with a response, a retry, or an error in place of events that could not be read, and
// nothing after that.
type follower struct {
	rd      *round
	c       *rejointest.Client
	name    string
	unnamed bool // events may come without ids, because the store fails
	asleep  bool // new connections begin frozen

	mu     sync.Mutex
	lines  []*line // its connections, the newest last
	stream string  // the name of the stream, from its event ids
	ids    []string
	nonces map[string]bool
	events map[uint64][]byte // by position
	top    uint64            // the highest position
	answer uint64            // the position of the response; 0: it has not come
	gone   bool              // a poll got 204: nothing is left
}

// line is one connection. The follower's mutex guards it.
type line struct {
	n       int
	cursor  string // the Last-Event-ID of its request
	greeted bool
	from    uint64 // the position of its primer
	pos     uint64 // the position of the last event
	last    string // the last event id
	retried bool   // the server has sent a retry to end it
	failed  bool   // it got an error in place of events that could not be read
	over    bool
	cut     bool // the client has cut it
	stalled bool // it was frozen, so the server may have given it up
	gate    gate
	cancel  context.CancelFunc
}

// gate blocks a reader while it is closed.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil: open
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

func (g *gate) wait() {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

// gated is a body behind a gate.
type gated struct {
	io.Reader
	*gate
}

func (r gated) Read(p []byte) (int, error) {
	r.wait()
	return r.Reader.Read(p)
}

func newFollower(rd *round, c *rejointest.Client, name string) *follower {
	return &follower{rd: rd, c: c, name: name, nonces: map[string]bool{}, events: map[uint64][]byte{}}
}

// post sends the request whose stream this is.
func (f *follower) post(id int, params string) {
	f.begin(kit.Request(f.rd.t, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, params)), "")
}

// get polls with an event id, or requests the standalone stream.
func (f *follower) get(cursor string) {
	r := kit.Request(f.rd.t, http.MethodGet, "", "Accept", "text/event-stream")
	if cursor != "" {
		r.Header.Set("Last-Event-Id", cursor)
	}
	f.begin(r, cursor)
}

// back polls with the last event id.
func (f *follower) back() { f.get(f.newest().last) }

// begin makes a new connection, which is the newest from now on. It returns when everything has come that can come without time passing.
func (f *follower) begin(r *http.Request, cursor string) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &line{cursor: cursor, cancel: cancel, stalled: f.asleep}
	if f.asleep {
		l.gate.close()
	}
	if _, at, ok := kit.Position(cursor); ok {
		l.last, l.from, l.pos = cursor, at, at // its events come after the cursor
	}
	f.mu.Lock()
	f.lines = append(f.lines, l)
	l.n = len(f.lines)
	f.mu.Unlock()
	f.rd.say("%s: line %d begins: %s %s", f.name, l.n, r.Method, kit.ShortID(cursor))
	res := f.c.Do(r.WithContext(ctx))
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		f.mu.Lock()
		defer f.mu.Unlock()
		l.over, f.gone = true, res.StatusCode == http.StatusNoContent
		if !f.gone {
			f.rd.fault("%s: line %d is answered %d %s", f.name, l.n, res.StatusCode, body)
		}
		return
	}
	go f.read(l, res.Body)
	synctest.Wait()
}

// read reads one line, in a goroutine of its own.
func (f *follower) read(l *line, body io.ReadCloser) {
	defer body.Close()
	events := sse.NewReader(gated{body, &l.gate}, 1<<20)
	for {
		ev, err := events.Next()
		f.mu.Lock()
		if err != nil {
			f.ended(l, err)
			f.mu.Unlock()
			return
		}
		if fault := f.take(l, &ev); fault != "" {
			f.rd.fault("%s: line %d, after %d: %s", f.name, l.n, l.pos, fault)
		}
		f.mu.Unlock()
	}
}

func (f *follower) ended(l *line, err error) {
	l.over = true
	f.rd.say("%s: line %d ends at %d: %v", f.name, l.n, l.pos, err)
	switch {
	case l.cut || l.stalled && !errors.Is(err, io.EOF):
	case f.unnamed && l != f.lines[len(f.lines)-1] && errors.Is(err, io.EOF): // it was replaced while a read failed: no client reads it
	case !errors.Is(err, io.EOF):
		f.rd.fault("%s: line %d breaks after %d: %v", f.name, l.n, l.pos, err)
	case !l.retried && !l.failed && (f.answer == 0 || l.pos != f.answer) && !f.rd.ending.Load():
		f.rd.fault("%s: line %d ends after %d without a retry and without a response", f.name, l.n, l.pos)
	}
}

// take compares one event with everything that is known, and returns what is wrong with it.
func (f *follower) take(l *line, ev *sse.Event) (fault string) {
	stream, at, ok := kit.Position(ev.ID)
	nonce := strings.Count(ev.ID, ".") == 2
	switch {
	case ev.HasID && (!ok || f.stream != "" && f.stream != stream):
		return "a strange event id: " + ev.ID
	case l.retried || l.failed || f.answer != 0 && l.pos == f.answer && l.greeted:
		return fmt.Sprintf("something comes after the end: %q", ev.Data)
	case !l.greeted:
		l.greeted = true
		if !ev.HasID || !nonce || len(ev.Data) > 0 || ev.Retry <= 0 || f.nonces[ev.ID] {
			return fmt.Sprintf("it does not begin with a primer of its own: %q %q", ev.ID, ev.Data)
		}
		if l.cursor != "" && at != l.from {
			return fmt.Sprintf("its primer stands at %d, but %s was asked for", at, l.cursor)
		}
		f.stream, f.nonces[ev.ID], f.ids = stream, true, append(f.ids, ev.ID)
		l.from, l.pos, l.last = at, at, ev.ID
		return ""
	case !ev.HasData:
		l.retried = true
		if ev.HasID || ev.Retry <= 0 {
			return "an event with neither data nor retry"
		}
		return ""
	case bytes.Contains(ev.Data, []byte(`"reason":"store"`)):
		l.failed = true // the client gets it, but it is not an event of the log
		if !f.unnamed {
			return "the store has failed, and should not have"
		}
		return ""
	}
	l.pos++
	switch {
	case ev.HasID && (nonce || at != l.pos):
		return fmt.Sprintf("event %s has come, and should be %d", kit.ShortID(ev.ID), l.pos)
	case !ev.HasID && !f.unnamed:
		return "an event without an id"
	case ev.HasID:
		l.last, f.ids = ev.ID, append(f.ids, ev.ID)
	}
	if known, ok := f.events[l.pos]; !ok {
		f.events[l.pos], f.top = ev.Data, max(f.top, l.pos)
	} else if !bytes.Equal(known, ev.Data) {
		return fmt.Sprintf("it brings %s where %s came before", ev.Data, known)
	}
	if bytes.Contains(ev.Data, []byte(`"result":`)) {
		if f.answer != 0 && f.answer != l.pos {
			return fmt.Sprintf("a second response; the first was %d", f.answer)
		}
		f.answer = l.pos
	}
	return ""
}

func (f *follower) newest() *line {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lines[len(f.lines)-1]
}

func (f *follower) id(i int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ids[i%len(f.ids)]
}

// cut breaks the newest connection.
func (f *follower) cut() { f.cutLine(f.newest()) }

func (f *follower) cutLine(l *line) {
	synctest.Wait()
	f.mu.Lock()
	l.cut = true
	f.mu.Unlock()
	l.cancel()
	l.gate.open()
	synctest.Wait()
}

// freeze stops reading the newest connection.
func (f *follower) freeze() {
	l := f.newest()
	f.mu.Lock()
	l.stalled = true
	f.mu.Unlock()
	l.gate.close()
}

// thaw goes on reading all connections.
func (f *follower) thaw() {
	f.mu.Lock()
	lines := f.lines
	f.mu.Unlock()
	for _, l := range lines {
		l.gate.open()
	}
	synctest.Wait()
}

// stop cuts all connections.
func (f *follower) stop() {
	f.mu.Lock()
	lines := f.lines
	f.mu.Unlock()
	for _, l := range lines {
		f.cutLine(l)
	}
}

// state returns the position of the newest connection, whether it has brought the response, and whether it may bring more.
func (f *follower) state() (pos uint64, answered, reading bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lines[len(f.lines)-1]
	return l.pos, f.answer != 0 && l.pos == f.answer, !l.over
}

// await waits until a client that reads has the response. Time passes only up to patience.
func (f *follower) await(patience time.Duration) bool {
	for limit := time.Now().Add(patience); ; kit.Elapse(100 * time.Millisecond) {
		synctest.Wait()
		if _, answered, reading := f.state(); answered || !reading || !time.Now().Before(limit) {
			return answered
		}
	}
}
