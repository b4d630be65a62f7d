package core

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// batchOf is a POST of so many requests, no two of which have one id but the first and the last, if twice.
func batchOf(n int, twice bool) *In {
	in := &In{Op: Post, Stream: streamID("A"), Conn: 1, Policy: &Policy{}}
	for k := range n {
		in.Batch = append(in.Batch, Request{ID: "request-" + strconv.Itoa(k)})
	}
	if twice {
		in.Batch[n-1].Key = in.Batch[0].ID
	}
	return in
}

// An id that is twice in a batch is found in time that grows as the batch does.
func TestDuplicatesInALargeBatch(t *testing.T) {
	takes := func(n int) time.Duration {
		best := time.Hour
		for range 5 {
			m := New(&Config{}, streamID("S"), start)
			m.phase = phaseOpen
			in := batchOf(n, true)
			began := time.Now()
			require.Equal(t, Duplicate, m.Step(start, in, nil)[0].Reason)
			best = min(best, time.Since(began))
		}
		return best
	}
	few, many := takes(2_000), takes(40_000)
	require.Less(t, many, 100*few, "20 times as many take about 20 times as long, and not 400 times")
	for _, n := range []int{2, maxPairwise, maxPairwise + 1, 100} {
		m := New(&Config{}, streamID("S"), start)
		m.phase = phaseOpen
		require.Equal(t, Duplicate, m.Step(start, batchOf(n, true), nil)[0].Reason, "%d", n)
		require.Equal(t, Start, m.Step(start, batchOf(n, false), nil)[0].Do, "%d", n)
	}
}

// Handlers that work on after the end of their requests count beside the requests in flight, up to four times as many. Pings have their own places.
func TestHandlersThatHaveNotReturned(t *testing.T) {
	post := func(in In, stale int, others ...In) Reason {
		m := New(&Config{MaxInFlight: 5}, streamID("S"), start)
		m.phase = phaseOpen
		for i, other := range others {
			other.Op, other.Stream, other.Policy, other.ID = Post, StreamID{byte(i), 1}, &Policy{}, strconv.Itoa(i)
			require.Equal(t, Start, m.Step(start, &other, nil)[0].Do)
		}
		in.Op, in.Stream, in.Policy, in.Stale = Post, streamID("A"), &Policy{}, stale
		return m.Step(start, &in, nil)[0].Reason
	}
	one, ping, three := In{ID: "x"}, In{ID: "x", Flags: Ping}, *batchOf(3, false)
	require.Equal(t, NoReason, post(one, 19))
	require.Equal(t, Stuck, post(one, 20))
	require.Equal(t, Stuck, post(one, 19, In{}))
	require.Equal(t, NoReason, post(one, 19, In{Flags: Ping}))
	require.Equal(t, NoReason, post(ping, 20), "a ping is answered all the same")
	require.Equal(t, Stuck, post(ping, 21), "but not any number of them")
	require.Equal(t, NoReason, post(three, 17))
	require.Equal(t, Stuck, post(three, 18))
	require.Equal(t, TooMany, post(three, 100, In{}, In{}, In{}), "the requests in flight come first")
}

// What is kept of the ids of requests that have ended is bounded in bytes, whether their streams are kept or remembered.
func TestLongIDsOfEndedRequests(t *testing.T) {
	const most = 10_000
	m := New(&Config{MaxEnded: 50, Remember: 1000, IDBytes: most}, streamID("S"), start)
	m.phase, m.canPoll = phaseOpen, true
	policy := Policy{Mode: SSE}
	id := func(i int) StreamID { return StreamID{1, byte(i), byte(i >> 8)} }
	for i := range 400 {
		in := In{Op: Post, Stream: id(i), Conn: 1, Policy: &policy}
		for k := range 4 {
			in.Batch = append(in.Batch, Request{ID: strings.Repeat("x", 250) + strconv.Itoa(k)})
		}
		m.Step(start, &in, nil)
		for k := range in.Batch {
			m.Step(start, &In{Op: Reply, Stream: id(i), ID: in.Batch[k].ID}, nil)
		}
		m.Step(start, &In{Op: Written, Stream: id(i), Conn: 1, Seq: 4}, nil)
		m.Step(start, &In{Op: Gone, Stream: id(i), Conn: 1}, nil)
		check(t, &m)
	}
	answers := map[Do]int{}
	for i := range 400 { // each cursor lacks the last response
		out := m.Step(start, &In{Op: Get, Conn: 2, Flags: HasCursor, Stream: id(i), Seq: 3}, nil)
		answers[out[0].Do]++
	}
	known := 2 * (most / (4 * (251 + memberBytes)))
	require.Equal(t, map[Do]int{Attach: known, Refuse: 400 - known}, answers, "kept, and remembered")

	huge := *batchOf(500, false) // alone it is more than may be kept
	huge.Policy = &policy
	m.Step(start, &huge, nil)
	for k := range huge.Batch {
		m.Step(start, &In{Op: Reply, Stream: huge.Stream, ID: huge.Batch[k].ID}, nil)
	}
	check(t, &m)
	require.Equal(t, Attach, m.Step(start, &In{Op: Get, Conn: 3, Flags: HasCursor, Stream: huge.Stream, Seq: 1}, nil)[1].Do, "its client still gets it")
}
