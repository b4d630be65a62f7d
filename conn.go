package rejoin

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// conn is one HTTP response: it waits for orders, reads the log of its stream and writes. run is its only goroutine, the one
// inside Serve. What others may touch is guarded by the session's mutex.
type conn struct {
	id    core.ConnID
	s     *Session
	out   writer
	woken chan struct{}
	fresh atomic.Bool // there are orders that were not taken

	st     *stream       // what it reads; nil: nothing
	stream core.StreamID // its name, also where the stream is gone
	opens  bool          // it answers initialize
	named  bool          // with a result, which comes with the session's id
	first  []byte        // the id of the first request of a POST
	orders orders

	streaming bool   // it is answered by a stream
	begun     bool   // the head of that has left
	pos       uint64 // the last event that was put into a piece
	piece     []byte // what is to be written next
	buf       *[]byte
	most      int                   // bytes of a piece
	slow      bool                  // its client took long for the last one
	events    *[32]eventstore.Event // while it reads
	policy    core.Policy           // of a POST, until the machine has copied it
}

// orders are what the machine wants of a connection.
type orders struct {
	refuse   core.Reason
	json     []byte // the whole answer
	head     bool
	wait     time.Duration // before the head
	greeting greeting
	acked    bool // the client came back with from: it has what is before
	end      bool
	from     uint64     // read from after it
	withdraw []question // before expire
	expire   []expiry

	primerSeq, nonce uint64
	retry            time.Duration

	endSeq   uint64
	least    uint64 // when that is written it may end, and leave the rest; 0: it may not
	last     bool   // nothing follows endSeq, so whoever has it need not come back
	endRetry time.Duration
}

type greeting uint8

const (
	silent greeting = iota
	primer
	comment
)

// question is one to the client that it need not answer any more.
type question struct {
	seq uint64 // where it was asked
	id  string
	why error
}

type expiry struct {
	seq   uint64
	nonce uint64 // 0: the id is an event's
	id    string
	why   core.Reason
}

// A piece is what is written between two looks at the orders. It grows as long as the client takes it at once, and shrinks, down to one
// event, where the client takes longer than pieceTime: a connection whose time is over ends with the piece that it is writing.
const (
	firstPiece = 8 << 10
	maxPiece   = 64 << 10
	pieceTime  = 50 * time.Millisecond
)

// conns keeps what a connection needs but for its channel: that would not work in another bubble of testing/synctest, and users' tests
// run in many.
var conns = sync.Pool{New: func() any { return new(conn) }}

// events are what connections read into. They are empty: what they hold while they are used is the store's to forget.
var events = sync.Pool{New: func() any { return new([32]eventstore.Event) }}

// wake makes run look at its orders and its log.
func (c *conn) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// openConn registers a connection with its session. Under the session's lock.
func (s *Session) openConn(out writer) *conn {
	c := conns.Get().(*conn) //nolint:forcetypeassert // the pool holds nothing else
	s.lastConn++
	c.id, c.s, c.out, c.woken, c.most = s.lastConn, s, out, make(chan struct{}, 1), firstPiece
	s.conns = append(s.conns, c)
	return c
}

// close reports the end of a connection to the machine. Nothing of it is used afterwards.
func (c *conn) close() {
	s := c.s
	var p pass
	s.mu.Lock()
	for i, other := range s.conns {
		if other == c {
			last := len(s.conns) - 1
			s.conns[i], s.conns[last] = s.conns[last], nil
			s.conns = s.conns[:last]
			break
		}
	}
	if st := c.st; st != nil {
		if st.conn == c {
			st.conn = nil
		}
		if st.closing == c {
			st.closing = nil
		}
	}
	s.step(&core.In{Op: core.Gone, Conn: c.id, Stream: c.stream}, &p)
	if c.opens {
		s.trim()
	}
	s.mu.Unlock()
	s.finish(&p)
	c.release()
	c.forget()
	conns.Put(c)
}

// end closes a connection that was served so far. A session that it was to open is ended if its client does not know it.
func (c *conn) end(how outcome) {
	if c.opens && how != answered {
		c.s.end(core.OpenFailure)
	}
	c.close()
}

// forget makes a connection ready for its next use.
func (c *conn) forget() {
	c.id, c.s, c.out, c.woken, c.st, c.stream, c.opens, c.orders, c.pos = 0, nil, writer{}, nil, nil, core.StreamID{}, false, orders{}, 0
	c.streaming, c.begun, c.events, c.first, c.named, c.slow = false, false, nil, nil, false, false
	c.fresh.Store(false)
}

// outcome is how a connection ended.
type outcome uint8

const (
	lost     outcome = iota // the client is gone
	answered                // everything was written
	refused                 // nothing was
	going                   // it has not
)

// run serves the connection until its stream is let go, its client is gone, or it is answered. It is what lies on the stack while the
// connection waits, so that is small: whoever calls it should be too.
func (c *conn) run(ctx context.Context) (how outcome, why core.Reason) {
	var quiet quietTimer
	defer quiet.stop()
	for {
		if how, why = c.turn(ctx, &quiet); how != going {
			return how, why
		}
		select {
		case <-c.woken:
		case <-ctx.Done():
			return lost, 0
		case <-quiet.after(c.streaming, c.s.srv.cfg.KeepAlive):
			c.piece = sse.AppendComment(c.buffer())
		}
	}
}

// turn does what is to be done now.
func (c *conn) turn(ctx context.Context, quiet *quietTimer) (how outcome, why core.Reason) {
	var o orders
	src := c.take(&o)
	switch {
	case o.refuse != core.NoReason && !c.streaming:
		return refused, o.refuse
	case o.json != nil:
		if c.named {
			c.out.w.Header()[sessionHeader] = []string{c.s.id}
		}
		if ctx.Err() != nil || c.out.json(http.StatusOK, o.json) != nil {
			return lost, 0
		}
		return answered, 0
	case o.head:
		if o.wait > 0 && !sleep(ctx, o.wait) || ctx.Err() != nil { // who is known to be gone is given no id
			return lost, 0
		}
		c.out.head()
		c.streaming, c.pos = true, o.from
		c.greet(&o)
	}
	if !c.streaming {
		return going, 0
	}
	if len(c.piece) > 0 || c.pos < src.stored {
		quiet.spoke()
	}
	if c.pos < src.stored { // there is something to read
		c.events = events.Get().(*[32]eventstore.Event) //nolint:forcetypeassert // the pool holds nothing else
	}
	done, err := c.write(&o, src)
	if c.events != nil {
		events.Put(c.events)
		c.events = nil
	}
	switch {
	case err != nil:
		c.s.srv.stats.noteWriteError(err)
		return lost, 0
	case done:
		return answered, 0
	}
	c.release()
	return going, 0
}

// take copies the orders, and returns the log. Orders that are carried out once are gone afterwards.
func (c *conn) take(o *orders) (src source) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	*o = c.orders
	c.fresh.Store(false)
	c.orders.head, c.orders.withdraw, c.orders.expire = false, nil, nil
	if c.st != nil {
		src = source{log: c.st.log, stored: c.st.stored, backlog: c.st.n == 0}
		// The last event that it was told to write may have been given back for want of room.
		o.endSeq = min(o.endSeq, c.st.last)
	}
	return src
}

// quietTimer fires when nothing was written for a while. The zero value is ready; it allocates when it has to wait.
type quietTimer struct {
	t     *time.Timer
	armed bool
}

func (q *quietTimer) spoke() { q.armed = false }

func (q *quietTimer) after(streaming bool, d time.Duration) <-chan time.Time {
	switch {
	case !streaming || d <= 0:
		return nil
	case q.t == nil:
		q.t = time.NewTimer(d)
	case !q.armed:
		q.t.Reset(d)
	}
	q.armed = true
	return q.t.C
}

func (q *quietTimer) stop() {
	if q.t != nil {
		q.t.Stop()
	}
}

// sleep waits, and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
