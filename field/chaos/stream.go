//go:build unix

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// stream is a stream as a client that looks into event ids has seen it, over all its connections. An event id is
// <stream>.<number>[.<nonce>]; those with a nonce take no number.
type stream struct {
	r    *record
	take func(data []byte)

	ids   []string                     // of events and primers, as they came
	told  int                          // of ids: the newest one that was a cursor
	sums  map[string]map[uint64]uint64 // of streams and numbers
	last  map[string]uint64            // of streams: the highest number that has come
	pos   map[string]uint64            // of streams: where the connection that is read now is
	asked string                       // the cursor that this connection was asked for
}

func newStream(r *record, take func(data []byte)) *stream {
	return &stream{r: r, take: take, sums: map[string]map[uint64]uint64{}, last: map[string]uint64{}, pos: map[string]uint64{}}
}

// parseID reads an event id.
func parseID(id string) (name string, n uint64, nonce, ok bool) {
	parts := strings.Split(id, ".")
	if len(parts) != 2 && len(parts) != 3 {
		return "", 0, false, false
	}
	n, err := strconv.ParseUint(parts[1], 10, 64)
	return parts[0], n, len(parts) == 3, err == nil
}

// named notes that an id is known.
func (s *stream) named(id string) { s.ids = append(s.ids, id) }

// cursor returns the id that came back ids before the newest, but none before one that was a cursor already: a cursor tells the server that
// what precedes it has arrived, and need not be kept. "": there is none.
func (s *stream) cursor(back int) string {
	if len(s.ids) == 0 {
		return ""
	}
	s.told = max(s.told, len(s.ids)-1-back)
	return s.ids[s.told]
}

// begin begins a connection that was asked for a cursor; "": none.
func (s *stream) begin(cursor, front string) {
	clear(s.pos)
	if name, n, _, ok := parseID(cursor); ok {
		s.pos[name] = n
	}
	s.asked = fmt.Sprintf("%q through %s at %s", cursor, front, clock(time.Now()))
}

// event takes an event of a connection.
func (s *stream) event(e sse.Event) {
	name, n, nonce, ok := parseID(e.ID)
	if e.HasID {
		s.named(e.ID)
	}
	switch {
	case !e.HasID, !ok:
		if len(e.Data) > 0 {
			s.take(e.Data)
		}
		return
	case nonce:
		if _, known := s.pos[name]; !known {
			s.pos[name] = n
		}
		if len(e.Data) > 0 { // an error in place of what is not there any more
			s.take(e.Data)
		}
		return
	}
	if at, known := s.pos[name]; known && n != at+1 {
		what := disorder
		if n > at+1 {
			what = lost
		}
		s.r.faulty(what, fmt.Sprintf("%s: %s comes after number %d, on a connection from %s: %s", s.r.Name, e.ID, at, s.asked, e.Data))
	}
	s.pos[name] = n
	sums := s.sums[name]
	if sums == nil {
		sums = map[uint64]uint64{}
		s.sums[name] = sums
	}
	sum := sumOf(e.Data)
	if old, known := sums[n]; known && old != sum {
		s.r.faulty(twoMeanings, fmt.Sprintf("%s: %s was another event before, on a connection from %s: %s", s.r.Name, e.ID, s.asked, e.Data))
	}
	sums[n] = sum
	if n > s.last[name] {
		s.last[name] = n
		s.take(e.Data)
	}
}
