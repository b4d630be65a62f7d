package engine

import (
	"encoding/json"
	mrand "math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// In a cluster the store must know a stream before the first id of it leaves: the client may come back with that id to another process. So a
// primer waits until the stream is begun there. If that takes long, the head and a comment leave, and the primer follows.

// beginPatience is how long the head of a response waits for its stream to be begun.
const beginPatience = time.Second

// aboutStream is what the next owner of a session gets to know of a stream.
type aboutStream struct {
	Number   uint32            `json:"n"`
	Method   string            `json:"method,omitempty"`
	Requests []json.RawMessage `json:"ids,omitempty"`
	Batch    bool              `json:"batch,omitempty"`
	Retain   time.Duration     `json:"retain,omitempty"`
}

// appendAbout appends an aboutStream as JSON. It is written for each call that is stored, so without encoding/json.
func (st *stream) appendAbout(dst []byte) []byte {
	dst = strconv.AppendUint(append(dst, `{"n":`...), uint64(st.n), 10)
	if st.method != "" {
		dst = jsonrpc.AppendString(append(dst, `,"method":`...), st.method)
	}
	for i, r := range st.requests {
		if i == 0 {
			dst = append(dst, `,"ids":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, r.id...) // it is valid JSON
	}
	if len(st.requests) > 0 {
		dst = append(dst, ']')
	}
	if st.batch {
		dst = append(dst, `,"batch":true`...)
	}
	if st.retain != 0 {
		dst = strconv.AppendInt(append(dst, `,"retain":`...), int64(st.retain), 10)
	}
	return append(dst, '}')
}

// isLocal reports whether the store does not know the stream because it has failed. Under the lock.
func (st *stream) isLocal() bool {
	_, local := st.log.(*localLog)
	return local
}

// waits reports whether the head of a connection waits for its stream to be begun. If it has waited for too long, or the store has failed, it
// does not: then the connection owes the client an id. begin: the stream is not being begun yet. Under the lock.
func (c *Conn) waits() (yes, begin bool) {
	st := c.st
	if c.s.owner == nil || st == nil || st.begun || !c.orders.head || c.orders.greeting != primer || c.orders.primerOf != st.id {
		return false, false // a primer with the id of an older log need not wait: the store knows that
	}
	if c.s.over != core.NoReason { // there is nothing to wait for
		c.owesID = c.s.over == core.Moved // the next owner will not know the stream
		return false, false
	}
	if c.overdue || st.isLocal() {
		if o := &c.orders; o.end && o.endRetry > 0 && !o.last {
			return true, false // it is to be let go, and without an id its client could not come back
		}
		c.owesID = true
		return false, false
	}
	begin = !c.begins
	if begin {
		c.begins = true
		s, id := c.s, c.id // the connection may be another one by then
		time.AfterFunc(beginPatience, func() { s.beginOverdue(id) })
	}
	return true, begin
}

// beginOverdue lets the head of a connection leave without an id. Its client cannot come back until it has one.
func (s *Session) beginOverdue(id core.ConnID) {
	var p pass
	s.mu.Lock()
	if c := s.conn(id); c != nil && c.orders.head && c.begins && !c.overdue && c.st != nil && !c.st.begun {
		c.overdue = true
		if !c.st.unnamed {
			c.st.unnamed = true
			s.step(&core.In{Op: core.Lost, Stream: c.st.id}, &p)
		}
		c.wake()
	}
	s.mu.Unlock()
	s.finish(&p)
}

// beginStream makes the store know a stream.
func (s *Session) beginStream(st *stream) {
	if s.engine.instant {
		s.doInTurn(st, beginChore)
		return
	}
	go s.doInTurn(st, beginChore)
}

// noteBegun notes that the store knows the stream. Under the lock.
func (s *Session) noteBegun(st *stream, p *pass) {
	st.begun = true
	for _, c := range s.conns { // those that have been taken over too
		if c.st == st && c.begins {
			c.wake()
		}
	}
	if st.unnamed {
		st.unnamed = false
		s.step(&core.In{Op: core.Healed, Stream: st.id, Seq: st.last}, p)
	}
}

// heldPrefix is what the ids of held streams begin with whose clients had no cursor. Sent back, such an id counts as no cursor.
const heldPrefix = "none."

// IsHeldID reports whether a cursor is the id of a held stream that stands for none.
func IsHeldID(cursor string) bool { return strings.HasPrefix(cursor, heldPrefix) }

// HeldID is the id of the primer of a stream that is not served now. It stands for the client's own cursor, which is valid or empty.
func HeldID(cursor string) []byte {
	id := []byte(heldPrefix + "0")
	if name, rest, ok := strings.Cut(cursor, "."); ok && !IsHeldID(cursor) {
		seq, _, _ := strings.Cut(rest, ".")
		id = []byte(name + "." + seq)
	}
	return strconv.AppendUint(append(id, '.'), mrand.Uint64(), 36) //nolint:gosec // it need not be a secret
}
