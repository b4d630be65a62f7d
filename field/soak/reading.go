package main

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// reading is one connection that reads a stream, with what it has read.
type reading struct {
	s    *session
	t    *track
	w    *clientConn
	what string // the stream, for faults
	pos  int    // how many messages of the stream precede the next one
	each func(w *clientConn, data []byte)

	retry time.Duration // the last retry; told: nothing came after it
	told  bool
	named bool // an id came
	err   error
}

// run reads to the end of the response. It may be called once.
func (r *reading) run(resp *response) {
	events := sse.NewReader(resp.body, 1<<20)
	for n := 0; ; n++ {
		ev, err := events.Next()
		if err != nil {
			r.err = err
			break
		}
		r.s.ledger.count("blocks")
		r.take(n, ev)
	}
	r.s.noteContact()
	switch {
	case errors.Is(r.err, io.EOF) && !resp.last:
		r.s.drop(r.w)
		r.s.pool.put(r.w)
		return
	case errors.Is(r.err, io.EOF):
	case errors.Is(r.err, errCut), r.w.cut.Load():
		r.s.ledger.count("cuts")
		r.err = errCut
	case !r.s.gone.Load():
		r.s.faultf(r.w, r.what, "the connection broke: %v", r.err)
	}
	r.s.drop(r.w)
	r.w.disconnect(false)
}

// take checks block n of the response.
func (r *reading) take(n int, ev sse.Event) {
	fault := func(format string, args ...any) { r.s.faultf(r.w, r.what, format, args...) }
	primer := ev.HasID && ev.Retry >= 0 && ev.HasData && len(ev.Data) == 0
	if r.s.polls && n == 0 != primer || !r.s.polls && ev.Retry >= 0 {
		fault("block %d is not what this client can take: %+v", n, ev)
	}
	if r.told = ev.Retry >= 0 && !primer; ev.Retry >= 0 {
		r.retry = ev.Retry
	}
	if len(ev.Data) > 0 {
		r.s.ledger.count("messages")
		if !ev.HasID {
			fault("a message without an id: %s", ev.Data)
		}
		if bytes.Contains(ev.Data, []byte(`"data":{"reason":"expired"}`)) { // the log has another message at this position
			r.told = true
			r.each(r.w, ev.Data)
			return
		}
		r.t.order.Lock()
		fresh, wrong := r.t.message(r.pos, ev.Data)
		if fresh {
			r.s.ledger.count("events")
			r.each(r.w, ev.Data)
		}
		r.t.order.Unlock()
		if wrong != "" {
			fault("%s: %s", wrong, ev.Data)
		}
		r.pos++
	}
	if ev.HasID {
		r.named = true
		if wrong := r.t.named(ev.ID, r.pos, primer); wrong != "" {
			fault("%s", wrong)
		}
	}
}

// keep registers a connection, which is cut if the session disappears.
func (s *session) keep(w *clientConn) {
	s.conns.Store(w, true)
	if s.left.Load() {
		w.disconnect(true)
	}
}

func (s *session) drop(w *clientConn) { s.conns.Delete(w) }

// planEnd registers a connection, and decides at random whether and when the client cuts or stalls it.
func (s *session) planEnd(r *rand.Rand, w *clientConn, about time.Duration) {
	s.keep(w)
	if s.isStopping() {
		return
	}
	switch reset := r.IntN(2) == 0; r.IntN(8) {
	case 0:
		w.cutAfter.Store(r.Int64N(2000)) // often within the head or the first events
	case 1:
		w.cutAfter.Store(r.Int64N(6000))
	case 2:
		w.stall.Store(1 + r.Int64N(4000))
	case 3, 4:
		time.AfterFunc(time.Duration(r.Int64N(int64(about)+1)), func() {
			if _, open := s.conns.Load(w); open {
				w.disconnect(reset)
			}
		})
	}
}
