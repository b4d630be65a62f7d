package engine

import (
	"errors"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// olderLog is a log of the standalone stream that the session had in an earlier process. It has ended.
type olderLog struct {
	id  core.StreamID
	log eventstore.Log
}

// olderPart is what a connection reads of an older log, before the log of its stream.
type olderPart struct {
	olderLog

	pos, last uint64 // what was put into a piece, and what is to be
}

// olderLog finds a log by its name; nil: the session has no such log. Under the lock.
func (s *Session) olderLog(id core.StreamID) *olderLog {
	if s.older == nil {
		return nil
	}
	for i := range *s.older {
		if l := &(*s.older)[i]; l.id == id {
			return l
		}
	}
	return nil
}

// addOlder makes a connection that is not served yet read an older log first. Under the lock.
func (c *Conn) addOlder(o *core.Out) {
	if l := c.s.olderLog(o.Stream); l != nil {
		c.older = append(c.older, olderPart{*l, o.Seq, o.Last})
	}
}

// writeOlder writes what is left of the older logs. done: the connection may go on with its own log.
func (c *Conn) writeOlder(o *orders) (done bool, err error) {
	for len(c.older) > 0 {
		switch {
		case o.end && !o.older:
			c.older = nil // it is to end at once
			return true, nil
		case o.mayEnd(c) && (c.slow || len(c.piece) == 0): // a piece has left, and the rest can be fetched
			c.older, o.endSeq = nil, min(o.endSeq, c.pos)
			return true, nil
		case c.fresh.Load():
			return false, nil
		}
		if more, err := c.readOlder(o); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// readOlder puts the next events of the first older log into the piece, and sends it when it is full. What is lost of the log is left out: no
// request waits for a response there. more: the connection may go on.
func (c *Conn) readOlder(o *orders) (more bool, err error) {
	p := &c.older[0]
	n, state, err := c.s.readLog(p.log, p.pos, c.window())
	lost := err == nil && n == 0 && state.First <= p.pos+1 || isLoss(err)
	switch {
	case lost && c.s.Over(): // it was dropped with its session
		return false, nil
	case errors.Is(err, eventstore.ErrFenced):
		if c.s.regain() {
			c.readsLater(errAway)
		}
		return false, nil
	case !lost && c.readsLater(err):
		return false, nil
	case err != nil && !lost:
		c.s.engine.Counters.StoreFailed.Add(1)
		c.s.host.Report(Event{Kind: StoreFailed, Err: err})
		c.gap(core.StoreFailed)
		return false, nil
	case lost:
		c.reportGap(p.pos, p.last)
		c.older = c.older[1:]
		return true, nil
	case state.First > p.pos+1:
		c.reportGap(p.pos, min(state.First-1, p.last))
		p.pos = state.First - 1
	}
	defer clear(c.events[:n]) // they are the store's to forget
	var id [streamNameLen + 21]byte
	for i := range c.events[:n] {
		e := &c.events[i]
		if e.Seq > p.last {
			break
		}
		p.pos, c.brought = e.Seq, true
		c.piece = sse.AppendEvent(c.buffer(), appendEventID(id[:0], c.nameOf(p.id), e.Seq), e.Data)
		if len(c.piece) >= c.most {
			if err := c.flush(); err != nil {
				return false, err
			}
			if c.fresh.Load() || o.mayEnd(c) {
				break
			}
		}
	}
	if p.pos >= p.last {
		c.older = c.older[1:]
	}
	return true, nil
}
