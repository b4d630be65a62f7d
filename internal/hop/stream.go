package hop

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// End is how a stream has ended.
type End uint8

// The ends.
const (
	Complete    End = iota // the owner has ended it
	Interrupted            // it was cut off between two events: something can follow
	Broken                 // it was cut off inside an event of which the client has a part
	Unwritable             // the client cannot be written to
	HeldBack               // a middleware holds back what was written; the client can come back
)

// Stream is how a stream is passed on.
type Stream struct {
	Out *respond.Writer
	// CanPoll says that the client comes back for a stream that ended early, if it has an event id.
	CanPoll bool
	// MayGo says that the stream may be ended between two events by Forwarder.LetGo although its client has no event id: it asks again by itself.
	MayGo bool
	// MayEnd says that the stream is ended, between two events, when this process ends (Forwarder.End): nothing that its client waits for is lost.
	MayEnd bool
	// Seen gets what is written to a client that could not come back for the rest: it has no event id yet, or cannot poll. Nil: it is not needed.
	Seen func(events []byte)

	// Primed says that the client has an event id.
	Primed bool
}

// Pass writes the events of the answer to the client as they come, until the owner ends the stream or the stream is cut off. Of an event it writes
// nothing before the end has come, unless it is large. The error says why it ended early.
func (a *Answer) Pass(s *Stream) (End, error) {
	s.Out.Begin()
	b := newBuffer()
	defer b.release()
	inside := false // the client has a part of an event
	for first := true; ; {
		full, err := b.read(a, !inside && (s.MayGo || s.Primed && s.CanPoll), !inside && s.MayEnd)
		whole := b.whole(inside)
		switch {
		case whole > 0:
			inside = false
		case full && b.isLarge(): // the event is larger than any buffer
			whole, inside = b.have, true
		}
		if whole > 0 {
			if piece := b.buf[:whole]; !s.Primed {
				s.Primed = hasID(piece)
			}
			if s.Seen != nil && !(s.Primed && s.CanPoll) {
				s.Seen(b.buf[:whole])
			}
			if err := s.Out.Send(b.buf[:whole]); err != nil {
				return Unwritable, err
			}
			over := endsInRetry(b.buf[:whole])
			b.wrote(whole)
			if first && err == nil && !over && s.Primed && s.CanPoll && s.Out.HoldsBack() {
				return HeldBack, nil
			}
			first = first && !s.Primed
		}
		b.fit(full)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && b.have == 0 && !inside:
			return Complete, nil
		case inside:
			return Broken, a.cause(err)
		default:
			return Interrupted, a.cause(err)
		}
	}
}

// read reads the next part of the body. mayGo, mayEnd: the stream may be left meanwhile, by LetGo or by End.
func (a *Answer) read(b []byte, mayGo, mayEnd bool) (int, error) {
	a.waits.Store(a.p.now())
	a.mayGo.Store(mayGo)
	a.mayEnd.Store(mayEnd)
	if mayGo && a.p.f.ending.Load() || mayEnd && a.p.f.over.Load() {
		a.cancel(ErrLetGo)
	}
	n, err := a.res.Body.Read(b)
	a.mayGo.Store(false)
	a.mayEnd.Store(false)
	a.waits.Store(0)
	if n > 0 {
		a.p.alive()
	}
	return n, err
}

// letGo ends the stream if its client can come back, or if it is over and nothing is lost.
func (a *Answer) letGo() {
	if a.mayGo.Load() || a.p.f.over.Load() && a.mayEnd.Load() {
		a.cancel(ErrLetGo)
	}
}

// waitsSince reports whether it has waited for the owner for a while.
func (a *Answer) waitsSince(d int64) bool {
	since := a.waits.Load()
	return since != 0 && a.p.now()-since >= d
}

// cause is why the answer ended early.
func (a *Answer) cause(err error) error {
	if cause := context.Cause(a.ctx); cause != nil {
		return cause
	}
	return err
}

// hasID reports whether there is an event with an id.
func hasID(events []byte) bool {
	return bytes.HasPrefix(events, []byte("id: ")) || bytes.Contains(events, []byte("\nid: "))
}

// endsInRetry reports whether the last block only says when to come back. With it the owner ends a stream.
func endsInRetry(events []byte) bool {
	events = bytes.TrimSuffix(events, []byte("\n\n"))
	if i := bytes.LastIndex(events, []byte("\n\n")); i >= 0 {
		events = events[i+2:]
	}
	return bytes.HasPrefix(events, []byte("retry: "))
}
