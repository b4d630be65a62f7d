package engine

import (
	"errors"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// source is the log that a connection reads, as it was when the orders were taken.
type source struct {
	log     eventstore.Log
	stored  uint64 // the last event that can be read
	backlog bool   // the standalone stream
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// buffer returns the piece, to append to. A connection that has nothing to write holds no buffer.
func (c *Conn) buffer() []byte {
	if c.buf == nil {
		c.buf = buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
		c.piece = (*c.buf)[:0]
	}
	return c.piece
}

// release gives the buffer back to the pool. Its content was written.
func (c *Conn) release() {
	if c.buf == nil {
		return
	}
	if cap(c.piece) <= 2*maxPiece {
		*c.buf = c.piece[:0]
		buffers.Put(c.buf)
	}
	c.buf, c.piece = nil, nil
}

// greet puts what comes first on every stream into the first piece.
func (c *Conn) greet(o *orders) {
	switch o.greeting {
	case primer:
		var id [streamNameLen + 36]byte
		c.piece = sse.AppendPrimer(c.buffer(), appendPrimerID(id[:0], c.nameOf(o.primerOf), o.primerSeq, o.nonce), o.retry)
	case comment:
		c.piece = sse.AppendComment(c.buffer())
	}
	if o.acked && c.st != nil {
		c.mark(eventstore.Mark{Acked: o.from})
	}
}

// write writes what the log holds, as far as the orders allow. done: the response is complete.
func (c *Conn) write(o *orders, src source) (done bool, err error) {
	c.tell(o)
	whole := o.endSeq
	if len(c.older) > 0 {
		if ready, err := c.writeOlder(o); !ready {
			return false, errors.Join(err, c.flush())
		}
	}
	if o.mayEnd(c) && c.slow { // more would take long
		o.endSeq = min(whole, c.pos)
	}
	for limit := c.limit(o, src.stored); c.pos < limit; limit = c.limit(o, c.stored()) {
		if c.fresh.Load() { // a long log is not written out to a client that was detached meanwhile
			return false, c.flush()
		}
		more, err := c.read(src, limit, o)
		if err != nil || !more {
			return false, errors.Join(err, c.flush())
		}
		if o.mayEnd(c) && len(c.piece) == 0 { // a piece has left, and the rest can be fetched
			o.endSeq = min(whole, c.pos)
		}
	}
	if !o.end || c.pos < o.endSeq {
		return false, c.flush()
	}
	c.tellLast(o)
	if o.endRetry > 0 && (!o.last || c.pos < whole) {
		c.piece = sse.AppendRetry(c.buffer(), o.endRetry)
	}
	return true, c.flushLast()
}

// mayEnd reports whether the time of a connection is over and it has written enough: the next connection gets the rest.
func (o *orders) mayEnd(c *Conn) bool { return o.least > 0 && (c.pos >= o.least || c.brought) }

// tell writes to a client that gets nothing more of the log which questions it need not answer, and an error for each response that it does
// not have.
func (c *Conn) tell(o *orders) {
	for _, q := range o.withdraw {
		if q.seq <= c.pos {
			data := jsonrpc.AppendRequest(nil, nil, "notifications/cancelled", withdrawal(q.id, q.why))
			c.piece = sse.AppendEvent(c.buffer(), nil, data)
		}
	}
	for _, e := range o.expire {
		if e.nonce == 0 && e.seq > c.pos { // else it is the number of an event that was written
			var id []byte
			if !o.moved { // else the next owner would not know it
				id = appendEventID(nil, c.nameOf(c.stream), e.seq)
			}
			c.piece = sse.AppendEvent(c.buffer(), id, e.response)
		}
	}
}

// tellLast writes what follows the whole log: errors for requests of which nothing more can come, though no number is left for them.
func (c *Conn) tellLast(o *orders) {
	for _, e := range o.expire {
		if e.nonce != 0 && e.seq <= c.pos {
			c.piece = sse.AppendEvent(c.buffer(), appendPrimerID(nil, c.nameOf(c.stream), e.seq, e.nonce), e.response)
		}
	}
}

// limit is the last event to write.
func (c *Conn) limit(o *orders, stored uint64) uint64 {
	if o.end {
		return min(stored, o.endSeq)
	}
	return stored
}

// stored reads again how long the log is, so that new events leave in the same flush.
func (c *Conn) stored() uint64 {
	if c.st == nil {
		return 0
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.st.stored
}

// window is what one read may fill. A store across the network is asked for a whole batch at once; one in memory for as many as stay in the caches.
func (c *Conn) window() []eventstore.Event {
	if c.s.engine.instant {
		return c.events[:instantWindow]
	}
	return c.events[:]
}

const instantWindow = 32

// read puts the next events of the log into the piece, and sends it when it is full. more: there may be others.
func (c *Conn) read(src source, limit uint64, o *orders) (more bool, err error) {
	n, state, err := c.s.readLog(src.log, c.pos, c.window())
	if err == nil && n == 0 && state.First <= c.pos+1 { // it was appended, or there would be nothing to read
		err = &eventstore.BehindError{Last: state.Last}
	}
	switch {
	case errors.Is(err, eventstore.ErrFenced):
		if c.s.regain() {
			c.readsLater(errAway)
		}
		return false, nil
	case c.readsLater(err):
		return false, nil
	case isLoss(err):
		return c.loss(src, limit, err), nil
	case err != nil:
		c.s.engine.Counters.StoreFailed.Add(1)
		c.s.host.Report(Event{Kind: StoreFailed, Err: err})
		c.gap(core.StoreFailed)
		return false, nil
	case state.First > c.pos+1 && !src.backlog:
		c.gap(core.Expired)
		return false, nil
	case state.First > c.pos+1:
		c.reportGap(c.pos, state.First-1)
		c.pos = state.First - 1
	}
	defer clear(c.events[:n])       // they are the store's to forget
	local, _ := src.log.(*localLog) // nil: all have ids
	var id [streamNameLen + 21]byte
	for i := range c.events[:n] {
		e := &c.events[i]
		if e.Seq > limit {
			break
		}
		c.pos = e.Seq
		var name []byte
		if local.names(e.Seq) {
			name = appendEventID(id[:0], c.nameOf(c.stream), e.Seq)
			c.lastID = e.Seq
		}
		c.piece = sse.AppendEvent(c.buffer(), name, e.Data)
		if len(c.piece) >= c.most {
			if err := c.flush(); err != nil {
				return false, err
			}
			if c.fresh.Load() || o.mayEnd(c) {
				break // perhaps it was replaced meanwhile
			}
		}
	}
	return n > 0, nil
}

// loss handles a store that does not have what follows in the log. more: there is something to read after what is lost.
func (c *Conn) loss(src source, limit uint64, err error) (more bool) {
	c.s.mu.Lock()
	st := c.st
	dropped, stale := st == nil || st.dropped || c.s.over != core.NoReason, st != nil && st.log != src.log
	c.s.mu.Unlock()
	local, _ := src.log.(*localLog)
	switch {
	case dropped:
		c.gap(core.Expired)
		return false
	case stale: // the store failed or recovered meanwhile; the sender that noticed it has woken this connection
		return false
	case local != nil:
		limit = min(limit, local.from-1)
	}
	c.s.lostData(st, limit+1, err)
	if !src.backlog {
		c.gap(core.StoreFailed)
		return false
	}
	c.reportGap(c.pos, limit) // no request waits for a response there
	c.pos = limit
	return true
}

// gap reports that the connection cannot read on. The machine's orders follow.
func (c *Conn) gap(why core.Reason) {
	in := core.In{Op: core.Gap, Conn: c.id, Stream: c.stream, Seq: c.pos, Reason: why, Rand: spread()}
	in.Nonce = mrand.Uint64() //nolint:gosec // the stream's name is the secret
	c.s.do(in)
	if why == core.Expired {
		c.s.engine.Counters.Expired.Add(1)
	}
}

// reportGap tells that events of a standalone stream, those after pos up to last, were dropped before their client came.
func (c *Conn) reportGap(pos, last uint64) {
	c.s.engine.Counters.Expired.Add(1)
	c.s.host.Report(Event{Kind: Gap, First: pos + 1, Last: last})
}

// flush writes the piece.
func (c *Conn) flush() error {
	first := !c.begun
	if first {
		c.begun = true
		c.out.Begin()
	}
	if len(c.piece) == 0 {
		return nil
	}
	size, began := len(c.piece), time.Now()
	err := c.sent(c.out.Send(c.piece))
	c.pace(size, time.Since(began))
	if first && err == nil && c.out.HoldsBack() {
		c.s.host.Report(Event{Kind: HeldBack, Where: c.out.Kind()})
		c.giveUp()
	}
	return err
}

// pace makes the next piece larger where the client took the last one at once, and smaller where it took long.
func (c *Conn) pace(size int, took time.Duration) {
	switch c.slow = took > pieceTime; {
	case c.slow:
		c.most = max(1, min(c.most, size)/4)
	case size >= c.most:
		c.most = min(2*c.most, maxPiece)
	}
}

// giveUp detaches a client that sees nothing of its stream before the response ends. A client that cannot poll has to wait for the end.
func (c *Conn) giveUp() {
	var p pass
	c.s.mu.Lock()
	if c.st != nil && c.st.conn == c {
		c.s.step(&core.In{Op: core.Close, Stream: c.stream, Rand: spread()}, &p)
	}
	c.s.mu.Unlock()
	c.s.finish(&p)
}

// flushLast is flush for the end of a response. A response that ends before its head has left needs no chunks.
func (c *Conn) flushLast() error {
	switch {
	case !c.begun:
		c.begun = true
		return c.sent(c.out.Whole(http.StatusOK, c.piece))
	case len(c.piece) == 0:
		c.out.Limit()
		return nil
	}
	return c.sent(c.out.SendLast(c.piece))
}

// sent tells the machine and the store how far the client was served.
func (c *Conn) sent(err error) error {
	c.piece = c.piece[:0]
	if err != nil {
		if c.out.Took() { // perhaps an id got through, and the client will come back with it: then the stream must stay
			c.written(c.least())
		}
		return err
	}
	c.written(c.pos)
	if c.pos > 0 && c.st != nil {
		log := c.mark(eventstore.Mark{Written: c.pos})
		if l, ok := log.(eventstore.Limited); ok && c.short(l) {
			c.s.press(core.In{Op: core.Press, Conn: c.id, Stream: c.stream})
		}
	}
	return nil
}

// written tells the machine how far the client was served. 0: an id may have reached the client.
func (c *Conn) written(seq uint64) {
	var p pass
	c.s.mu.Lock()
	if c.owesID { // it has at most the id of an event
		seq = min(seq, c.lastID)
	}
	if !c.owesID || seq > 0 {
		c.s.step(&core.In{Op: core.Written, Conn: c.id, Stream: c.stream, Seq: seq}, &p)
	}
	c.s.mu.Unlock()
	c.s.finish(&p)
}

// least is the first event with an id that the client of a request may have. 0: the primer's id is enough, or there is none.
func (c *Conn) least() uint64 {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.st == nil || c.st.n == 0 || c.orders.greeting == primer {
		return 0
	}
	return min(c.pos, 1)
}

// mark passes a hint to the store, and returns the log that it is about.
func (c *Conn) mark(m eventstore.Mark) eventstore.Log {
	c.s.mu.Lock()
	log := c.st.log
	c.s.mu.Unlock()
	if log != nil {
		c.s.mark(log, m)
	}
	return log
}

// NoteWriteError counts a write that failed because its client has stopped reading.
func (e *Engine) NoteWriteError(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.Counters.WritesTimedOut.Add(1)
	}
}
