package rejoin

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"

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
	for _, e := range o.expire {
		f := failure(e.why)
		data := jsonrpc.AppendError(nil, []byte(e.id), f.Code, f.Message, f.Data)
		c.piece = sse.AppendEvent(c.buffer(), appendEventID(nil, c.stream, e.seq), data)
	}
	for limit := c.limit(o, src.stored); c.pos < limit; limit = c.limit(o, c.stored()) {
		if c.fresh.Load() { // a long log is not written out to a client that was sent away meanwhile
			return false, c.flush()
		}
		if more, err := c.read(src, limit); err != nil || !more {
			return false, errors.Join(err, c.flush())
		}
	}
	if !o.end || c.pos < o.endSeq {
		return false, c.flush()
	}
	if o.endRetry > 0 {
		c.piece = sse.AppendRetry(c.buffer(), o.endRetry)
	}
	return true, c.flushLast()
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
func (c *conn) read(src source, limit uint64) (more bool, err error) {
	n, state, err := c.readLog(src.log)
	switch {
	case errors.Is(err, eventstore.ErrGone):
		c.gap(core.Expired)
		return false, nil
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
	defer clear(c.events[:n]) // they are the store's to forget
	local, _ := src.log.(*localLog)
	var id [streamNameLen + 21]byte
	for i := range c.events[:n] {
		e := &c.events[i]
		if e.Seq > limit {
			break
		}
		c.pos = e.Seq
		name := appendEventID(id[:0], c.stream, e.Seq)
		if local != nil && e.Seq >= local.from {
			name = nil // nobody could find it again in another process, or after a restart
		}
		c.piece = sse.AppendEvent(c.buffer(), name, e.Data)
		if len(c.piece) >= maxPiece {
			if err := c.flush(); err != nil {
				return false, err
			}
			if c.fresh.Load() {
				break // perhaps it was replaced meanwhile
			}
		}
	}
	return n > 0, nil
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
	err := c.sent(c.out.send(c.piece))
	if first && err == nil && c.out.holdsBack() {
		c.s.srv.logHeldBack(c.s, c.out.w)
		c.giveUp()
	}
	return err
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
		c.mark(eventstore.Mark{Written: c.pos})
	}
	return nil
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

// mark passes a hint to the store.
func (c *conn) mark(m eventstore.Mark) {
	c.s.mu.Lock()
	log := c.st.log
	c.s.mu.Unlock()
	if log != nil {
		defer c.s.srv.recovered("eventstore.Log.Mark", func() {})
		log.Mark(m)
	}
}
