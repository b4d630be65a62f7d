package engine

import (
	"time"

	"github.com/rejoin-mcp/rejoin/core"
)

// In a cluster whose store is across the network, a tool that sends many notifications, one after the other, would wait for the store each time, and
// each would be an append of its own. So a sender that comes again sooner than the store took for the last notification goes ahead: a goroutine
// appends for it, many at once. It gets ahead by one batch at most.

const (
	// ahead is what begin returns instead of a reason of the machine, if the sender does not wait until its message is appended.
	ahead core.Reason = 254
	// crowded is what it returns if a whole batch waits for the store.
	crowded core.Reason = 253
)

// crowdPatience is how long a sender waits for the batch to be taken. After that its message waits in the queue with the others.
const crowdPatience = time.Second

// mayGoAhead reports whether the sender of such a message may go ahead.
func (s *Session) mayGoAhead(m *Message) bool {
	return s.owner != nil && !s.engine.instant && m.Op == core.Emit && m.ask == ""
}

// sendsAhead reports whether the sender of a message goes ahead. It is called after the step of the message, under the lock.
func (s *Session) sendsAhead(st *stream, m *Message) bool {
	return s.mayGoAhead(m) && st.pending != nil && s.active < st.pending.quickUntil
}

// noteSpeed notes how long the store took for a message that was appended.
func (s *Session) noteSpeed(st *stream, began time.Time) {
	now := time.Now()
	s.mu.Lock()
	if took := min(now.Sub(began), crowdPatience); took > 0 {
		st.wait().quickUntil = now.Sub(s.created) + took
	}
	s.mu.Unlock()
}

// isFull reports whether a whole batch waits.
func (w *pending) isFull() bool { return len(w.queue) >= maxBatch || w.queued >= maxBatchBytes }

// makeWay waits until the messages that wait are about to be appended, or the store does not answer.
func (s *Session) makeWay(st *stream) {
	s.mu.Lock()
	w := st.pending
	if w == nil || !w.isFull() || st.away {
		s.mu.Unlock()
		return
	}
	if w.crowd == nil {
		w.crowd = make(chan struct{})
	}
	crowd := w.crowd
	s.mu.Unlock()
	timer := time.NewTimer(crowdPatience)
	defer timer.Stop()
	select {
	case <-crowd:
	case <-timer.C:
	}
}

// letIn wakes the senders that wait in makeWay. Under the lock.
func (w *pending) letIn() {
	if w != nil && w.crowd != nil {
		close(w.crowd)
		w.crowd = nil
	}
}
