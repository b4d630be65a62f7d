package rejoin

import (
	"context"
	"sync"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// localLog is a log whose store has failed: what came before is still the store's, what comes from then on is kept here. The
// stream goes on, in this process, and its reader notices nothing but that the events have no ids.
type localLog struct {
	base eventstore.Log
	from uint64 // the first event that is kept here

	mu     sync.Mutex
	tail   []eventstore.Event
	bytes  int
	sealed bool
}

// maxLocalBytes bounds what one stream keeps of what the store would not take.
const maxLocalBytes = 4 << 20

func newLocalLog(base eventstore.Log, from uint64) *localLog {
	if l, ok := base.(*localLog); ok {
		return l
	}
	return &localLog{base: base, from: from}
}

func (l *localLog) Append(_ context.Context, seq uint64, data []byte, seal bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes+len(data) > maxLocalBytes && !seal {
		return eventstore.ErrFull
	}
	l.tail = append(l.tail, eventstore.Event{Seq: seq, Data: data})
	l.bytes += len(data)
	l.sealed = seal
	return nil
}

func (l *localLog) Read(ctx context.Context, after uint64, buf []eventstore.Event) (int, eventstore.State, error) {
	l.mu.Lock()
	state := eventstore.State{First: 1, Last: l.from - 1 + uint64(len(l.tail)), Sealed: l.sealed}
	tail := l.tail
	l.mu.Unlock()
	if after+1 >= l.from {
		return copy(buf, tail[min(after+1-l.from, uint64(len(tail))):]), state, nil
	}
	buf = buf[:min(uint64(len(buf)), l.from-1-after)]
	n, base, err := l.base.Read(ctx, after, buf)
	if err != nil {
		return 0, state, err
	}
	state.First = base.First
	return n, state, nil
}

func (l *localLog) Mark(m eventstore.Mark)         { l.base.Mark(m) }
func (l *localLog) Watch(chan<- struct{}) func()   { return func() {} }
func (l *localLog) Drop(ctx context.Context) error { return l.base.Drop(ctx) }
