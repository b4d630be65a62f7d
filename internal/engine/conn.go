package engine

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/respond"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// Conn is one HTTP response. It waits for orders, reads the log of its stream and writes. Only the goroutine that serves the request runs it.
// The fields that other goroutines use are guarded by the session's mutex.
type Conn struct {
	id    core.ConnID
	s     *Session
	out   respond.Writer
	woken chan struct{}
	fresh atomic.Bool // there are new orders

	st     *stream       // what it reads; nil: nothing
	stream core.StreamID // its id, also if the stream was dropped
	name   streamName    // of the stream with the id nameID
	nameID core.StreamID // zero: name is not made yet
	older  []olderPart   // what it reads before
	opens  bool          // it answers initialize
	named  bool          // with a result, which comes with the session's id
	first  []byte        // the id of the first request of a POST
	via    string        // the process that it came through; "": none
	orders orders

	streaming bool   // it is answered by a stream
	begun     bool   // the head of that has left
	pos       uint64 // the last event that was put into a piece
	piece     []byte // what is to be written next
	buf       *[]byte
	most      int                         // bytes of a piece
	slow      bool                        // its client took long for the last one
	begins    bool                        // its head waits for its stream to be begun
	overdue   bool                        // for too long
	failing   time.Time                   // since then its store could not be read, in a cluster; zero: it could
	owesID    bool                        // its client was given no id yet, though it can come back
	lastID    uint64                      // the last event that was put into a piece with an id
	brought   bool                        // it has put an event of an older log into a piece
	events    *[maxBatch]eventstore.Event // while it reads
	policy    core.Policy                 // of a POST, until the machine has copied it
}

// orders are what the machine has told a connection to do.
type orders struct {
	refuse   core.Reason
	json     []byte // the whole answer
	head     bool
	wait     time.Duration // before the head
	greeting greeting
	named    bool // the id that the client was not given at first is written now
	acked    bool // the client resumed after from, so it has the events before
	end      bool
	moved    bool       // another process owns the session
	from     uint64     // read from after it
	withdraw []question // before expire
	expire   []expiry

	primerOf         core.StreamID
	primerSeq, nonce uint64
	retry            time.Duration

	endSeq   uint64
	least    uint64 // when that is written it may end, and leave the rest; 0: it may not
	last     bool   // nothing follows endSeq, so a client that has it need not come back
	older    bool   // what is left of older logs is to be written before
	endRetry time.Duration
}

type greeting uint8

const (
	noGreeting greeting = iota
	primer
	comment
)

// question is a request to the client that it need not answer any more.
type question struct {
	seq uint64 // where it was asked
	id  string
	why string
}

// expiry is an error in place of a response.
type expiry struct {
	seq      uint64
	nonce    uint64 // 0: the id is an event's. Else it is written at the end, if the connection has written up to seq by then
	response []byte
}

// A piece is what is written before the orders are looked at again. Pieces grow while the client takes them at once. They shrink, down to one
// event, if the client takes longer than pieceTime: a connection whose time is over ends with the piece that it is writing.
const (
	firstPiece = 8 << 10
	maxPiece   = respond.MaxPart
	pieceTime  = 50 * time.Millisecond
)

// conns keeps what a connection needs but for its channel: a channel of one bubble of testing/synctest does not work in another, and users'
// tests run in many.
var conns = sync.Pool{New: func() any { return new(Conn) }}

// events are what connections read into. They are cleared before they come back here.
var events = sync.Pool{New: func() any { return new([maxBatch]eventstore.Event) }}

// wake makes run look at its orders and its log.
func (c *Conn) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// conn finds a connection. Under the lock.
func (s *Session) conn(id core.ConnID) *Conn {
	for _, c := range s.conns {
		if c.id == id {
			return c
		}
	}
	return nil
}

// nameOf returns the name of a stream. It is made anew only if the last call was about another one. Only the goroutine that serves the
// connection calls it.
func (c *Conn) nameOf(id core.StreamID) *streamName {
	if c.nameID != id {
		c.name, c.nameID = nameOf(c.s.id, id), id
	}
	return &c.name
}

// newConn registers a connection with its session. Under the lock.
func (s *Session) newConn(out respond.Writer) *Conn {
	c := conns.Get().(*Conn) //nolint:forcetypeassert // the pool holds nothing else
	s.lastConn++
	c.id, c.s, c.out, c.woken, c.most = s.lastConn, s, out, make(chan struct{}, 1), firstPiece
	s.conns = append(s.conns, c)
	return c
}

// close reports the end of a connection to the machine. Nothing of it is used afterwards.
func (c *Conn) close() {
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
	*c = Conn{}
	conns.Put(c)
}

// End closes a connection that was served so far: nothing of it is used afterwards. A session that it was to open is ended if its client
// does not know it.
func (c *Conn) End(how Outcome) {
	if c.opens && how != Answered {
		c.s.End(core.OpenFailure, nil)
	}
	c.close()
}

// Request is the id of the first request of a POST.
func (c *Conn) Request() []byte { return c.first }

// Moved reports whether it was refused because the session goes on in another process.
func (c *Conn) Moved() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.orders.refuse != core.NoReason && c.s.moved()
}

// Stopping reports whether it was refused because Stop was called, and the session has not ended yet.
func (c *Conn) Stopping() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.orders.refuse == core.Draining && c.s.over == core.NoReason
}

// Outcome is how a connection ended.
type Outcome uint8

// The outcomes.
const (
	Lost     Outcome = iota // the client is gone
	Answered                // everything was written
	Refused                 // nothing was
	going                   // it has not ended
)

// Serve serves the connection until its stream is let go, its client is gone, or it is answered. If it is refused, why says so, and the
// caller answers. Serve is what lies on the stack while the connection waits, so that is small: its caller's frames should be, too.
func (c *Conn) Serve(ctx context.Context) (how Outcome, why core.Reason) {
	var quiet respond.QuietTimer
	defer quiet.Stop()
	for {
		if how, why = c.turn(ctx, &quiet); how != going {
			return how, why
		}
		select {
		case <-c.woken:
		case <-ctx.Done():
			return Lost, 0
		case <-quiet.After(c.streaming, c.s.engine.cfg.KeepAlive):
			c.piece = sse.AppendComment(c.buffer())
		}
	}
}

// turn does what is to be done now.
func (c *Conn) turn(ctx context.Context, quiet *respond.QuietTimer) (how Outcome, why core.Reason) {
	var o orders
	src := c.take(&o)
	switch {
	case o.refuse != core.NoReason && !c.streaming:
		return Refused, c.s.refusal(o.refuse)
	case o.json != nil:
		if c.named {
			c.out.NameSession(c.s.id)
		}
		if ctx.Err() != nil || c.out.JSON(http.StatusOK, o.json) != nil {
			return Lost, 0
		}
		return Answered, 0
	case o.head:
		if o.wait > 0 && !respond.Sleep(ctx, o.wait) || ctx.Err() != nil { // a client that is known to be gone gets no id
			return Lost, 0
		}
		c.out.Head()
		c.streaming, c.pos = true, o.from
		c.greet(&o)
	}
	if !c.streaming {
		return going, 0
	}
	if o.named {
		var id [streamNameLen + 36]byte
		of, pos := c.stream, c.pos
		if len(c.older) > 0 { // the client has to come back for the rest of them first
			of, pos = c.older[0].id, c.older[0].pos
		}
		c.piece = sse.AppendPrimer(c.buffer(), appendPrimerID(id[:0], c.nameOf(of), pos, o.nonce+1), o.retry)
	}
	reads := c.pos < src.stored || len(c.older) > 0
	if len(c.piece) > 0 || reads {
		quiet.Wrote()
	}
	if reads {
		c.events = events.Get().(*[maxBatch]eventstore.Event) //nolint:forcetypeassert // the pool holds nothing else
	}
	done, err := c.write(&o, src)
	if c.events != nil {
		events.Put(c.events)
		c.events = nil
	}
	switch {
	case err != nil:
		c.s.engine.NoteWriteError(err)
		return Lost, 0
	case done:
		return Answered, 0
	}
	c.release()
	return going, 0
}

// take copies the orders, and returns the log. It removes the orders that are to be carried out only once.
func (c *Conn) take(o *orders) (src source) {
	c.s.mu.Lock()
	waits, begin := c.waits()
	*o = c.orders
	o.moved = c.s.over == core.Moved
	c.fresh.Store(false)
	o.head = o.head && !waits
	switch {
	case !c.owesID:
	case o.head:
		o.greeting = comment
	case c.streaming && c.st != nil && c.st.begun && !c.st.isLocal():
		o.named, c.owesID = true, false
	}
	if c.orders.head = waits; !waits { // else they are carried out when the head has left
		c.orders.withdraw = nil
		if e := c.orders.expire; len(e) > 0 && e[0].nonce == 0 { // the others are written at the end
			c.orders.expire = nil
		}
	}
	st := c.st
	if st != nil {
		if st.named != "" && c.nameID != st.id {
			copy(c.name[:], st.named)
			c.nameID = st.id
		}
		src = source{log: st.log, stored: st.stored, backlog: st.n == 0}
		// The last event that it was told to write may have been taken back because the store had no room.
		o.endSeq = min(o.endSeq, st.last)
		if st.away && o.endRetry > 0 && !o.last { // it fetches the rest when it comes back
			o.endSeq = min(o.endSeq, st.stored)
		}
	}
	c.s.mu.Unlock()
	if begin {
		c.s.beginStream(st)
	}
	return src
}
