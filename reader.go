package rejoin

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// source is the log that a connection reads, as it stood when the orders were taken.
type source struct {
	log     eventstore.Log
	stored  uint64 // the last event that can be read
	backlog bool   // the standalone stream
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// buffer returns the piece, empty or not, for more to be put into. A connection that has nothing to write holds none.
func (c *conn) buffer() []byte {
	if c.buf == nil {
		c.buf = buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
		c.piece = (*c.buf)[:0]
	}
	return c.piece
}

// release gives the buffer back. What it was written with is on its way.
func (c *conn) release() {
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
func (c *conn) greet(o *orders) {
	switch o.greeting {
	case primer:
		var id [streamNameLen + 36]byte
		c.piece = sse.AppendPrimer(c.buffer(), appendPrimerID(id[:0], c.stream, o.primerSeq, o.nonce), o.retry)
	case comment:
		c.piece = sse.AppendComment(c.buffer())
	}
	if o.acked && c.st != nil {
		c.mark(eventstore.Mark{Acked: o.from})
	}
}

// write writes what the log holds, as far as the orders go. done: the response is complete.
func (c *conn) write(o *orders, src source) (done bool, err error) {
	c.tell(o)
	whole := o.endSeq
	if o.mayEnd(c.pos) && c.slow { // more would take long
		o.endSeq = min(whole, c.pos)
	}
	for limit := c.limit(o, src.stored); c.pos < limit; limit = c.limit(o, c.stored()) {
		if c.fresh.Load() { // a long log is not written out to a client that was sent away meanwhile
			return false, c.flush()
		}
		more, err := c.read(src, limit, o)
		if err != nil || !more {
			return false, errors.Join(err, c.flush())
		}
		if o.mayEnd(c.pos) && len(c.piece) == 0 { // a piece has left, and the rest can be fetched
			o.endSeq = min(whole, c.pos)
		}
	}
	if !o.end || c.pos < o.endSeq {
		return false, c.flush()
	}
	if o.endRetry > 0 && (!o.last || c.pos < whole) {
		c.piece = sse.AppendRetry(c.buffer(), o.endRetry)
	}
	return true, c.flushLast()
}

// mayEnd reports whether the time of a connection is over, and it has written enough to leave the rest for the next one.
func (o *orders) mayEnd(pos uint64) bool { return o.least > 0 && pos >= o.least }

// tell puts what is said to a client that gets no more of the log into the piece: which questions it need not answer, and an error for
// each response that it does not have.
func (c *conn) tell(o *orders) {
	for _, q := range o.withdraw {
		if q.seq <= c.pos {
			data := jsonrpc.AppendRequest(nil, nil, "notifications/cancelled", withdrawal(q.id, q.why.Error()))
			c.piece = sse.AppendEvent(c.buffer(), nil, data)
		}
	}
	for _, e := range o.expire {
		if e.nonce == 0 && e.seq <= c.pos { // it is the number of an event that was written
			continue
		}
		name := appendEventID(nil, c.stream, e.seq)
		if e.nonce != 0 {
			name = appendPrimerID(nil, c.stream, e.seq, e.nonce)
		}
		c.piece = sse.AppendEvent(c.buffer(), name, e.response())
	}
}

// response is the error in place of a response.
func (e *expiry) response() []byte {
	f := failure(e.why)
	return jsonrpc.AppendError(nil, []byte(e.id), f.Code, f.Message, f.Data)
}

// limit is how far to write.
func (c *conn) limit(o *orders, stored uint64) uint64 {
	if o.end {
		return min(stored, o.endSeq)
	}
	return stored
}

// stored looks again how long the log is: what has come meanwhile leaves in the same flush.
func (c *conn) stored() uint64 {
	if c.st == nil {
		return 0
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.st.stored
}

// readLog calls the store. One that panics has failed.
func (c *conn) readLog(log eventstore.Log) (n int, state eventstore.State, err error) {
	ctx, cancel := c.s.srv.deadline()
	defer cancel()
	defer c.s.srv.recovered("eventstore.Log.Read", func() { n, err = 0, errStorePanic })
	return log.Read(ctx, c.pos, c.events[:])
}

// read puts the next events of the log into the piece, and sends it when it is full. more: there may be others.
func (c *conn) read(src source, limit uint64, o *orders) (more bool, err error) {
	n, state, err := c.readLog(src.log)
	if err == nil && n == 0 && state.First <= c.pos+1 { // it was appended, or there would be nothing to read
		err = &eventstore.BehindError{Last: state.Last}
	}
	switch {
	case errors.Is(err, eventstore.ErrFenced):
		c.s.end(core.Moved)
		return false, nil
	case isLoss(err):
		return c.loss(src, limit, err), nil
	case err != nil:
		c.s.srv.logStoreFailed(c.s, err)
		c.gap(core.StoreFailed)
		return false, nil
	case state.First > c.pos+1 && !src.backlog:
		c.gap(core.Expired)
		return false, nil
	case state.First > c.pos+1:
		c.s.srv.logGap(c.s, c.pos+1, state.First-1)
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
			name = appendEventID(id[:0], c.stream, e.Seq)
		}
		c.piece = sse.AppendEvent(c.buffer(), name, e.Data)
		if len(c.piece) >= c.most {
			if err := c.flush(); err != nil {
				return false, err
			}
			if c.fresh.Load() || o.mayEnd(c.pos) {
				break // perhaps it was replaced meanwhile
			}
		}
	}
	return n > 0, nil
}

// loss is what comes of a store that has not what follows in the log. more: there is something to read after what is lost.
func (c *conn) loss(src source, limit uint64, err error) (more bool) {
	c.s.mu.Lock()
	st := c.st
	dropped, stale := st == nil || st.dropped || c.s.over, st != nil && st.log != src.log
	c.s.mu.Unlock()
	local, _ := src.log.(*localLog)
	switch {
	case dropped:
		c.gap(core.Expired)
		return false
	case stale: // the store failed or recovered meanwhile; whoever noticed has woken this connection
		return false
	case local != nil:
		limit = min(limit, local.from-1)
	}
	c.s.lostData(st, limit+1, err)
	if !src.backlog {
		c.gap(core.StoreFailed)
		return false
	}
	c.s.srv.logGap(c.s, c.pos+1, limit) // nobody waits for a response there
	c.pos = limit
	return true
}

// gap reports that the connection cannot read on. The machine's orders follow.
func (c *conn) gap(why core.Reason) {
	var p pass
	c.s.mu.Lock()
	c.s.step(&core.In{Op: core.Gap, Conn: c.id, Stream: c.stream, Seq: c.pos, Reason: why, Rand: rand.Uint32()}, &p) //nolint:gosec // spreads retries
	c.s.mu.Unlock()
	c.s.finish(&p)
	if why == core.Expired {
		c.s.srv.stats.expired.Add(1)
	}
}

// flush writes the piece.
func (c *conn) flush() error {
	first := !c.begun
	if first {
		c.begun = true
		c.out.begin()
	}
	if len(c.piece) == 0 {
		return nil
	}
	size, began := len(c.piece), time.Now()
	err := c.sent(c.out.send(c.piece))
	c.pace(size, time.Since(began))
	if first && err == nil && c.out.holdsBack() {
		c.s.srv.logHeldBack(c.s, c.out.w)
		c.giveUp()
	}
	return err
}

// pace makes the next piece larger where the client took the last one at once, and smaller where it took long.
func (c *conn) pace(size int, took time.Duration) {
	switch c.slow = took > pieceTime; {
	case c.slow:
		c.most = max(1, min(c.most, size)/4)
	case size >= c.most:
		c.most = min(2*c.most, maxPiece)
	}
}

// giveUp lets a client go that sees nothing of its stream before the response ends. One that cannot poll has to wait for that.
func (c *conn) giveUp() {
	var p pass
	c.s.mu.Lock()
	if c.st != nil && c.st.conn == c {
		c.s.step(&core.In{Op: core.Close, Stream: c.stream, Rand: rand.Uint32()}, &p) //nolint:gosec // spreads retries
	}
	c.s.mu.Unlock()
	c.s.finish(&p)
}

// flushLast is flush for the end of a response. One that ends before its head has left needs no chunks.
func (c *conn) flushLast() error {
	switch {
	case !c.begun:
		c.begun = true
		return c.sent(c.out.whole(http.StatusOK, c.piece))
	case len(c.piece) == 0:
		c.out.limit()
		return nil
	}
	return c.sent(c.out.sendLast(c.piece))
}

// sent says how far the client was served.
func (c *conn) sent(err error) error {
	c.piece = c.piece[:0]
	if err != nil {
		if c.out.took { // perhaps an id got through, and the client will come back with it: the stream is not to be given up
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

// short asks the store whether it is short of room for what was written.
func (c *conn) short(l eventstore.Limited) (is bool) {
	defer c.s.srv.recovered("eventstore.Limited.Short", func() { is = false })
	return l.Short()
}

// press says that the store is short of room for a stream, and reports whether it has more now.
func (s *Session) press(in core.In) (more bool) {
	in.Rand = rand.Uint32() //nolint:gosec // spreads retries
	var p pass
	s.mu.Lock()
	s.step(&in, &p)
	s.mu.Unlock()
	s.finish(&p)
	return p.yield != nil
}

// written tells the machine how far the client was served. 0: an id may have reached it.
func (c *conn) written(seq uint64) {
	var p pass
	c.s.mu.Lock()
	c.s.step(&core.In{Op: core.Written, Conn: c.id, Stream: c.stream, Seq: seq}, &p)
	c.s.mu.Unlock()
	c.s.finish(&p)
}

// least is what the client of a request may have, if it has anything: an id. It has one by the primer already, if it was primed.
func (c *conn) least() uint64 {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.st == nil || c.st.n == 0 || c.orders.greeting == primer {
		return 0
	}
	return min(c.pos, 1)
}

// mark passes a hint to the store, and returns the log that it is about.
func (c *conn) mark(m eventstore.Mark) eventstore.Log {
	c.s.mu.Lock()
	log := c.st.log
	c.s.mu.Unlock()
	if log != nil {
		c.s.srv.mark(log, m)
	}
	return log
}

func (s *Server) mark(log eventstore.Log, m eventstore.Mark) {
	defer s.recovered("eventstore.Log.Mark", func() {})
	log.Mark(m)
}
