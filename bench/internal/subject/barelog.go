package subject

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// bareKept is how many finished streams a session keeps, besides those of running calls.
const bareKept = 64

// bareLog has the streams of a session.
type bareLog struct {
	mu       sync.Mutex
	last     int // number of the newest stream
	primers  int // of the standalone stream
	streams  map[int]*bareEvents
	finished []int // oldest first
}

// bareEvents are the events of one call.
type bareEvents struct {
	number int

	mu      sync.Mutex
	events  [][]byte
	done    bool
	conn    *bareConn // the reader; nil: none
	primers int       // how many readers there were
}

// bareConn is a response that reads a stream.
type bareConn struct {
	wake   chan struct{} // of capacity 1
	gone   bool          // it must end; guarded by the stream's mutex
	closed bool          // the tool has closed the stream
	until  int           // if closed: it ends after this event
}

func (l *bareLog) primer() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.primers++
	return l.primers
}

func (l *bareLog) begin() *bareEvents {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams == nil {
		l.streams = map[int]*bareEvents{}
	}
	l.last++
	e := &bareEvents{number: l.last}
	l.streams[e.number] = e
	return e
}

// finish drops the oldest finished stream if there are too many.
func (l *bareLog) finish(e *bareEvents) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = append(l.finished, e.number)
	if len(l.finished) > bareKept {
		delete(l.streams, l.finished[0])
		l.finished = l.finished[1:]
	}
}

func (l *bareLog) find(number int) *bareEvents {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams[number]
}

func (e *bareEvents) append(data []byte, done bool) {
	e.mu.Lock()
	e.events = append(e.events, data)
	e.done = done
	e.wake()
	e.mu.Unlock()
}

func (e *bareEvents) len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.events)
}

func (e *bareEvents) wake() {
	if e.conn == nil {
		return
	}
	select {
	case e.conn.wake <- struct{}{}:
	default:
	}
}

// attach makes a new reader. The previous reader ends.
func (e *bareEvents) attach() (c *bareConn, primer int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn != nil {
		e.conn.gone = true
		e.wake()
	}
	e.conn = &bareConn{wake: make(chan struct{}, 1)}
	e.primers++
	return e.conn, e.primers
}

func (e *bareEvents) disconnect(c *bareConn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn == c {
		e.conn = nil
	}
}

// closeStream ends the response of the reader.
func (e *bareEvents) closeStream() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn != nil {
		e.conn.gone, e.conn.closed, e.conn.until = true, true, len(e.events)
		e.wake()
	}
}

// id is the id of an event: stream, position, and for a primer (primer > 0) its number, since no id is used twice.
func (e *bareEvents) id(position, primer int) string {
	var buf [48]byte
	b := strconv.AppendInt(buf[:0], int64(e.number), 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, int64(position), 10)
	if primer > 0 {
		b = append(b, '.')
		b = strconv.AppendInt(b, int64(primer), 10)
	}
	return string(b)
}

// callStored answers a call with a recorded stream. A tool that can close its stream runs in a goroutine of its own; echo cannot.
func (b *bare) callStored(w http.ResponseWriter, r *http.Request, s *bareSession, m *bareRequest, c *bareCall) {
	e := s.log.begin()
	finish := func(result *callResult, err error) {
		data, err := respond(m.ID, result, err)
		if err != nil {
			data, _ = respond(m.ID, nil, err)
		}
		e.append(data, true)
		s.log.finish(e)
	}
	if c.params.Name == Echo {
		out := beginStream(w)
		out.prime(e.id(0, 1))
		out.flush()
		finish(b.run(s.ctx, c))
		out.event(e.id(1, 0), e.events[0])
		return
	}
	conn, primer := e.attach() // before the tool starts, which may close the stream at once
	c.notify = func(data []byte) { e.append(data, false) }
	c.closeStream = e.closeStream
	go func() { finish(b.run(s.ctx, c)) }()
	b.read(w, r, s, e, conn, 0, primer)
}

// resume serves a GET with Last-Event-ID.
func (b *bare) resume(w http.ResponseWriter, r *http.Request, s *bareSession, last string) {
	name, rest, _ := strings.Cut(last, ".")
	place, _, _ := strings.Cut(rest, ".")
	number, err1 := strconv.Atoi(name)
	position, err2 := strconv.Atoi(place)
	e := s.log.find(number)
	if err1 != nil || err2 != nil || e == nil || position < 0 || position > e.len() {
		http.Error(w, "unknown event", http.StatusBadRequest)
		return
	}
	conn, primer := e.attach()
	b.read(w, r, s, e, conn, position, primer)
}

// read writes the events after position and those that follow. It flushes the recorded ones together, and the new ones one by one.
func (b *bare) read(w http.ResponseWriter, r *http.Request, s *bareSession, e *bareEvents, conn *bareConn, position, primer int) {
	defer e.disconnect(conn)
	out := beginStream(w)
	out.prime(e.id(position, primer))
	old := e.len()
	if position >= old {
		out.flush()
	}
	for {
		e.mu.Lock()
		events, done, gone, closed := e.events, e.done, conn.gone, conn.closed
		if closed {
			events, done = events[:max(conn.until, position)], false
		}
		e.mu.Unlock()
		for _, data := range events[position:] {
			position++
			out.event(e.id(position, 0), data)
			if position >= old && !(done && position == len(events)) { // the last one is flushed with the end
				out.flush()
			}
		}
		switch {
		case done:
			return
		case gone:
			if closed {
				out.retry()
			}
			return
		}
		select {
		case <-conn.wake:
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}
