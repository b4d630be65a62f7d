package engine

import (
	mrand "math/rand/v2"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// Post is what a POST asks for: a request, or a batch of them.
type Post struct {
	Request *Request   // the only one, or the first
	Batch   []*Request // all, where they are answered by an array; else nil
	First   []byte     // the id of the first request, for a refusal
	Flags   core.Flags // Initialize
	Policy  core.Policy
	Way     Way
}

// Way is what is between a connection and its client, so far as the response writer does not tell.
type Way struct {
	Left    time.Duration // the connection must end in so long; 0: no limit
	NoFlush bool          // nothing of the response reaches the client before its end
	Via     string        // the process of the cluster that the request came through; "": none
}

// Post starts requests. The caller serves the connection and ends it; started: it gives the requests to the app before.
func (s *Session) Post(out respond.Writer, post *Post) (c *Conn, started bool) {
	in := core.In{Op: core.Post, Flags: post.Flags, Dur: post.Way.Left, Nonce: mrand.Uint64()} //nolint:gosec // the stream's name is the secret
	in.Stream = newStreamID()
	if !out.CanFlush() || post.Way.NoFlush {
		in.Flags |= core.NoFlush
	}
	st := &stream{id: in.Stream, batch: post.Batch != nil, method: post.Request.method}
	if s.owner != nil {
		st.retain = post.Policy.Retain
	}
	if st.batch {
		st.requests = post.Batch
		in.Batch = make([]core.Request, len(post.Batch))
		for i, r := range post.Batch {
			in.Batch[i] = core.Request{ID: r.id, Key: keyOf(r.id), Ping: r.isPing()}
		}
	} else {
		st.requests = append(st.one[:0], post.Request)
		in.ID, in.Key, st.requestID = post.Request.id, keyOf(post.Request.id), post.Request.id
		if post.Request.isPing() {
			in.Flags |= core.Ping
		}
	}
	for _, r := range st.requests {
		r.st, r.opens = st, post.Flags&core.Initialize != 0
	}
	p := pass{start: st}
	s.mu.Lock()
	in.Stale = s.stale.count()
	c = s.newConn(out)
	c.policy, c.via = post.Policy, post.Way.Via
	in.Conn, in.Policy, c.stream, c.opens, c.first = c.id, &c.policy, in.Stream, post.Flags&core.Initialize != 0, post.First
	s.step(&in, &p)
	s.mu.Unlock()
	s.finish(&p)
	return c, p.started
}

// keyOf is what a request's id is compared by; "": the id itself, as nearly always.
func keyOf(id string) string {
	if key := jsonrpc.Key([]byte(id)); string(key) != id {
		return string(key)
	}
	return ""
}

// Get is what a GET asks for: the standalone stream, or any that its client resumes.
type Get struct {
	Resumes bool // from Stream and Seq, the cursor that the client sent
	Stream  core.StreamID
	Seq     uint64
	Way     Way
}

// Get attaches a reader. The caller serves the connection and ends it; served: it was not refused.
func (s *Session) Get(out respond.Writer, get Get) (c *Conn, served bool) {
	in := core.In{Op: core.Get, Stream: get.Stream, Seq: get.Seq, Dur: get.Way.Left, Nonce: mrand.Uint64(), Rand: spread()} //nolint:gosec // as above
	if get.Resumes {
		in.Flags |= core.HasCursor
		if IsStandalone(get.Stream) {
			in.Flags |= core.OfStandalone
		}
	}
	if !out.CanFlush() || get.Way.NoFlush {
		in.Flags |= core.NoFlush
	}
	var p pass
	s.mu.Lock()
	c = s.newConn(out)
	in.Conn, c.orders.acked, c.via = c.id, get.Resumes, get.Way.Via
	s.step(&in, &p)
	if c.orders.acked && c.orders.head && (c.orders.from != get.Seq || c.stream != get.Stream) { // the cursor says nothing of what is there
		c.orders.acked = false
		if s.olderLog(get.Stream) == nil { // past the end, or forgotten
			s.engine.Counters.Expired.Add(1)
		}
	}
	served = c.orders.refuse == core.NoReason || c.orders.refuse == core.NothingLeft
	if s.m.Running() == 0 { // it reads the standalone stream, and perhaps nothing else happens for a long time
		s.outs = nil
	}
	s.mu.Unlock()
	s.finish(&p)
	return c, served
}

// jsonAnswer is the body of a plain JSON answer: the response, or those of the whole batch. Where the session ends there are errors in
// place of a response. Under the lock.
func (c *Conn) jsonAnswer(m *Message) []byte {
	st, errs := c.st, c.orders.expire
	c.orders.expire = nil
	switch {
	case !st.batch && len(errs) > 0:
		return errs[0].response
	case !st.batch:
		return m.Data
	}
	body := []byte{'['}
	for _, h := range st.release() {
		body = append(append(body, h.Data...), ',')
	}
	if m != nil {
		body = append(append(body, m.Data...), ',')
	}
	for _, e := range errs {
		body = append(append(body, e.response...), ',')
	}
	body[len(body)-1] = ']'
	return body
}
