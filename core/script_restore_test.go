package core

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
)

// restore takes the machine's snapshot, makes of it what reached the store, and goes on with that.
func (s *script) restore(name string, last []string) (lines []string) {
	snap := s.m.Snapshot()
	have := func(id StreamID, n uint64) uint64 {
		for _, word := range last {
			if stream, seq, _ := strings.Cut(word, "."); streamID(stream) == id {
				n, err := strconv.ParseUint(seq, 10, 64)
				require.NoError(s.t, err)
				return n
			}
		}
		return n
	}
	if s.m.streamTable != nil && s.m.streams[standalone].idIssued() {
		snap.Older = append(snap.Older, OlderStream{ID: snap.Standalone, Last: s.m.streams[standalone].seq})
	}
	snap.Standalone = streamID(name)
	for k := range snap.Older {
		o := &snap.Older[k]
		o.Last = have(o.ID, o.Last)
		lines = append(lines, fmt.Sprintf("older %s.%d", o.ID, o.Last))
	}
	for k := range snap.Streams {
		at := &snap.Streams[k]
		if n := have(at.ID, at.Last); n < at.Last {
			at.Last, at.Sealed = n, false
		}
		words := []string{fmt.Sprintf("stream %s.%d", at.ID, at.Last)}
		if at.Sealed {
			words = append(words, "seal")
		}
		for i := range at.Requests {
			r := &at.Requests[i]
			if r.Seq > at.Last {
				r.Seq = 0
			}
			words = append(words, fmt.Sprintf("id=%s@%d", r.ID, r.Seq))
		}
		lines = append(lines, strings.Join(words, " "))
	}
	s.m = Restore(s.m.cfg, snap, s.base.Add(s.at))
	check(s.t, &s.m)
	s.index = map[StreamID]int32{}
	for _, id := range append(streamsOf(snap), snap.Standalone) {
		if i := s.m.Index(id); i >= 0 {
			s.index[id] = i
		} else {
			lines = append(lines, "dropped "+id.String())
		}
	}
	return lines
}

func streamsOf(snap *Snapshot) (ids []StreamID) {
	for k := range snap.Streams {
		ids = append(ids, snap.Streams[k].ID)
	}
	return ids
}
