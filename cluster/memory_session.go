package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// holding is the record or the tombstone of a session.
type holding struct {
	world *world
	name  string
	place int    // in world.order; world.mu guards it
	born  uint64 // world.lost when it was made

	// mu guards what follows, and makes each operation on the session and its logs one step. No goroutine holds the mu of two
	// sessions, or waits while it holds one.
	mu      sync.Mutex
	gone    bool // no longer in the world
	expires time.Time
	ended   bool // a tombstone
	record  Record

	streams map[string]*stream // those that were begun and not dropped
	begun   uint64             // how many ever
	sweepAt int                // how many streams may be there before those that were evicted are removed
}

// stream is a log of a session with a record.
type stream struct {
	about   string
	backlog bool
	nth     uint64 // in the order in which the streams were begun
	log     eventstore.Log
}

const minSweep = 64

// remove removes the session from the world, with its logs. The mu is held.
func (s *holding) remove() {
	if s.gone {
		return
	}
	s.gone = true
	_ = s.dropLogs() // fails only if the store is closed
	s.world.forget(s)
}

// dropLogs drops all logs of the session. The mu is held.
func (s *holding) dropLogs() error {
	s.streams = nil
	return s.world.logs.DropSession(context.Background(), s.name)
}

// owned checks that f is the owner's fence. The mu is held.
func (s *holding) owned(f eventstore.Fence) error {
	switch {
	case s.ended:
		return ErrEnded
	case s.record.Fence != f:
		return eventstore.ErrFenced
	}
	return nil
}

// begin makes sure that a stream whose log exists is among those of the session. The mu is held.
func (s *holding) begin(k *eventstore.Key, log eventstore.Log) *stream {
	st := s.streams[k.Stream]
	if st != nil {
		return st
	}
	if len(s.streams) >= max(s.sweepAt, minSweep) {
		for name, st := range s.streams {
			if _, at, err := st.log.Read(context.Background(), 0, nil, 0); err != nil || at.Sealed && at.First > at.Last {
				delete(s.streams, name)
			}
		}
		s.sweepAt = 2 * len(s.streams)
	}
	if s.streams == nil {
		s.streams = make(map[string]*stream)
	}
	s.begun++
	st = &stream{about: k.About, backlog: k.Backlog, nth: s.begun, log: log}
	s.streams[k.Stream] = st
	return st
}

// found returns the session's streams in the order in which they were begun. The mu is held.
func (s *holding) found() []Stream {
	names := make([]string, 0, len(s.streams))
	for name := range s.streams {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(s.streams[a].nth, s.streams[b].nth) })
	all := make([]Stream, 0, len(names))
	for _, name := range names {
		st := s.streams[name]
		if _, at, err := st.log.Read(context.Background(), 0, nil, 0); err == nil {
			all = append(all, Stream{Name: name, About: st.about, Backlog: st.backlog, First: at.First, Last: at.Last, Sealed: at.Sealed})
		}
	}
	return all
}
