package core

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGet walks the table of GETs, as far as the machine answers them. (406, and the words of a 400, are the driver's.)
func TestGet(t *testing.T) {
	const (
		parked = "post A c1 id=1; emit A; written c1 A.1; close A; gone c1 A" // one event, read
		sealed = parked + "; reply A 1"                                       // the response is the second one
		heard  = "get c1; emit; emit; written c1 S.1; gone c1 S"              // of two events one was written
		stream = "attach c9 %; head c9; primer c9 %.n9 retry=1s"
	)
	from := func(cursor string) string { return strings.ReplaceAll(stream, "%", cursor) }
	for _, c := range []struct{ name, before, get, want string }{
		// cursor of this session; request running, or events left
		{"running", parked, "get c9 A.1", from("A.1")},
		{"running, from a primer", parked, "get c9 A.0.n1", from("A.0")},
		{"running, from earlier", parked + "; emit A; emit A", "get c9 A.2", from("A.2")},
		{"events left", sealed, "get c9 A.1", from("A.1") + "; end c9 A.2 ended"},
		{"all left", sealed, "get c9 A.0", from("A.0") + "; end c9 A.2 ended"},
		{"standalone", heard, "get c9 S.1", from("S.1")},
		{"standalone, all read", heard, "get c9 S.2", from("S.2")},
		{"while another one reads", "post A c1 id=1; emit A", "get c9 A.0", "end c1 now retry=1s taken-over; " + from("A.0")},
		{"while draining", parked + "; drain", "get c9 A.1", from("A.1")},

		// cursor; request ended, nothing left
		{"ended", sealed, "get c9 A.2", "refuse c9 nothing-left"},
		{"ended, while its reader still writes", "post A c1 id=1; emit A; reply A 1", "get c9 A.2", "refuse c9 nothing-left"},
		{"ended and dropped", sealed + "; 10m tick", "get c9 A.2", "refuse c9 nothing-left"},
		{"cancelled", "post A c1 id=1; emit A; written c1 A.1; cancel 1", "get c9 A.0", "refuse c9 nothing-left"},
		{"cancelled and dropped", parked + "; cancel 1", "get c9 A.0", "refuse c9 nothing-left"},

		// cursor of a request stream whose next events were dropped
		{"dropped", sealed + "; 10m tick", "get c9 A.1",
			"attach c9 A.1 nothing-to-read; head c9; primer c9 A.1.n9 retry=1s; error c9 A.2 id=1 expired; end c9 now expired"},
		{"dropped, legacy", "open 2025-06-18; post A c1 id=1; emit A; written c1 A.1; gone c1 A; reply A 1; 10m tick", "get c9 A.1",
			"attach c9 A.1 nothing-to-read; head c9; comment c9; error c9 A.2 id=1 expired; end c9 now expired"},
		{"evicted", "open 2025-11-25 max-ended=1; " + sealed + "; post B c2 id=2 mode=sse; reply B 2; written c2 B.1; gone c2 B", "get c9 A.0",
			"attach c9 A.0 nothing-to-read; head c9; primer c9 A.0.n9 retry=1s; error c9 A.1 id=1 expired; end c9 now expired"},

		// cursor that this session never issued
		{"of what was forgotten", "touch", "get c9 X.0", "refuse c9 nothing-left"},
		{"of a standalone stream that was forgotten", heard, "get c9 S9.0", from("S.1")},
		{"of a standalone stream that was forgotten, off", "open 2025-11-25 nostandalone", "get c9 S9.0", "refuse c9 no-standalone"},
		{"of a standalone stream that was forgotten, draining", heard + "; drain", "get c9 S9.0", from("S.1") + "; end c9 S.2 retry=1s"},
		{"of a standalone stream that was forgotten, no flush", heard, "get c9 S9.0 noflush", from("S.1") + "; end c9 S.2 retry=1s"},
		{"past the end", parked, "get c9 A.2",
			"attach c9 A.2 nothing-to-read; head c9; primer c9 A.2.n9 retry=1s; error c9 A.2.n10 id=1 expired; end c9 now expired"},
		{"past the end, ended", sealed, "get c9 A.3",
			"attach c9 A.3 nothing-to-read; head c9; primer c9 A.3.n9 retry=1s; error c9 A.3.n10 id=1 expired; end c9 now expired"},
		{"past the end, dropped", sealed + "; 10m tick", "get c9 A.3",
			"attach c9 A.3 nothing-to-read; head c9; primer c9 A.3.n9 retry=1s; error c9 A.3.n10 id=1 expired; end c9 now expired"},
		{"past the end, again", parked + "; get c8 A.2; gone c8 A", "get c9 A.2",
			"attach c9 A.2 nothing-to-read; head c9; primer c9 A.2.n9 retry=1s; error c9 A.2.n10 id=1 expired; end c9 now expired"},
		{"past the end of all numbers", parked, "get c9 A.18446744073709551615", "attach c9 A.18446744073709551615 nothing-to-read; head c9; " +
			"primer c9 A.18446744073709551615.n9 retry=1s; error c9 A.18446744073709551615.n10 id=1 expired; end c9 now expired"},
		{"past the end, while another one reads", "post A c1 id=1; emit A", "get c9 A.2",
			"attach c9 A.2 nothing-to-read; head c9; primer c9 A.2.n9 retry=1s; error c9 A.2.n10 id=1 expired; end c9 now expired"},
		{"past the end, legacy", "open 2025-06-18; post A c1 id=1; emit A; written c1 A.1; gone c1 A", "get c9 A.2",
			"attach c9 A.2 nothing-to-read; head c9; comment c9; error c9 A.2.n10 id=1 expired; end c9 now expired"},
		{"past the end, unreachable", "post A c1 id=1 mode=sse; emit A; gone c1 A", "get c9 A.2",
			"attach c9 A.2 nothing-to-read; head c9; primer c9 A.2.n9 retry=1s; error c9 A.2.n10 id=1 expired; end c9 now expired"},
		{"past the end, cancelled", "post A c1 id=1; emit A; written c1 A.1; cancel 1", "get c9 A.2", "refuse c9 nothing-left"},
		{"past the end, cancelled and dropped", parked + "; cancel 1", "get c9 A.2", "refuse c9 nothing-left"},
		{"past the end, after an event that came since", parked + "; get c8 A.2; gone c8 A; emit A; emit A", "get c9 A.2", from("A.2")},
		{"past the end, standalone", heard, "get c9 S.3", from("S.1")},
		{"standalone that was never opened", "touch", "get c9 S.0", "refuse c9 unknown"},
		{"standalone that nobody was given an id of", "open 2025-06-18; get c1", "get c9 S.0", "refuse c9 unknown"},
		{"of an answer that is not decided", "post A c1 id=1", "get c9 A.0", "refuse c9 unknown"},
		{"of an answer in JSON", "post A c1 id=1; reply A 1", "get c9 A.0", "refuse c9 nothing-left"},
		{"of an unreachable stream", "post A c1 id=1; gone c1 A", "get c9 A.0", "refuse c9 unknown"},
		{"of an unreachable stream, ended", "post A c1 id=1; gone c1 A; reply A 1", "get c9 A.0", "refuse c9 nothing-left"},
		{"longer ago than is remembered", "open 2025-11-25 remember=0; " + sealed + "; 10m tick", "get c9 A.1", "refuse c9 nothing-left"},

		// no cursor
		{"fresh", "touch", "get c9", from("S.0")},
		{"fresh, with a backlog", "emit; emit", "get c9", from("S.0")},
		{"fresh, after some were read", heard, "get c9", from("S.1")},
		{"fresh, after all were read", "get c1; emit; emit; written c1 S.2; gone c1 S", "get c9", from("S.2")},
		{"fresh, after an old cursor read again", "get c1; emit; emit; written c1 S.2; get c2 S.0; written c2 S.1; gone c2 S", "get c9", from("S.2")},
		{"fresh, while another one reads", "get c1", "get c9", "end c1 now retry=1s taken-over; " + from("S.0")},

		// no cursor where that stream is off, or the writer cannot flush
		{"off", "open 2025-11-25 nostandalone", "get c9", "refuse c9 no-standalone"},
		{"no flush", "touch", "get c9 noflush", "refuse c9 no-standalone"},
		{"no flush, cursor", parked, "get c9 A.1 noflush", from("A.1") + "; end c9 A.1 retry=1.5s"},
		{"no flush, cursor, events left", parked + "; emit A", "get c9 A.1 noflush", from("A.1") + "; end c9 A.2 retry=1s"},
		{"no flush, cursor, ended", sealed, "get c9 A.1 noflush", from("A.1") + "; end c9 A.2 ended"},
		{"no flush, cursor, legacy", "open 2025-06-18; post A c1 id=1; emit A; written c1 A.1; gone c1 A", "get c9 A.1 noflush",
			"attach c9 A.1; head c9; comment c9"},
		{"no flush, standalone, legacy", "open 2025-06-18; get c1; emit; written c1 S.1; gone c1 S", "get c9 S.1 noflush",
			"attach c9 S.1; head c9; comment c9; end c9 S.1"},

		// no new work
		{"fresh, draining", "drain", "get c9", "refuse c9 draining"},
		{"standalone, draining", heard + "; drain", "get c9 S.1", from("S.1") + "; end c9 S.2 retry=1s"},
		{"standalone, draining, legacy", "open 2025-06-18; get c1; emit; written c1 S.1; gone c1 S; drain", "get c9 S.1",
			"attach c9 S.1; head c9; comment c9"},
		{"before initialize", "new", "get c9", "refuse c9 unknown"},
		{"before initialize, cursor", "new", "get c9 S.0", "refuse c9 unknown"},
		{"after the end", "delete", "get c9", "refuse c9 deleted"},
		{"after the end, cursor", sealed + "; delete", "get c9 A.1", "refuse c9 deleted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.all("0s open 2025-11-25")
			for line := range strings.SplitSeq(c.before, "; ") {
				s.all(line)
			}
			require.Equal(t, c.want, s.all(c.get))
		})
	}
}

// TestTooManyGets: a burst is free, then heads are delayed and retries raised, but nothing is refused.
func TestTooManyGets(t *testing.T) {
	m := New(&Config{Policy: Policy{Retry: time.Second, RetryMax: time.Minute}}, streamID("S"), start)
	m.phase, m.canPoll = phaseOpen, true
	now := start
	get := func() (wait, retry time.Duration) {
		out := m.Step(now, &In{Op: Get, Conn: 1, Nonce: 1}, nil)
		for _, o := range out {
			switch o.Do {
			case Head:
				wait = o.Dur
			case Primer:
				retry = o.Dur
			case Refuse:
				t.Fatal("a poll is never refused for coming too often")
			default:
			}
		}
		return wait, retry
	}
	for range getBurst {
		wait, retry := get()
		require.Zero(t, wait)
		require.Equal(t, time.Second, retry)
	}
	wait, retry := get()
	require.Equal(t, getInterval, wait)
	require.Equal(t, 1500*time.Millisecond, retry)
	for range 1000 {
		wait, retry = get()
	}
	require.Equal(t, getMaxWait, wait, "no head waits longer")
	require.Equal(t, time.Minute, retry, "no retry is longer than RetryMax")

	now = now.Add(getInterval)
	wait, _ = get()
	require.Equal(t, getMaxWait, wait, "one GET for each interval keeps the wait where it is")
	now = now.Add(getMaxWait + getInterval)
	wait, _ = get()
	require.Zero(t, wait, "a pause of the longest wait ends it, however many came")

	// 64 parked calls that come back every second are no reason to wait.
	now = now.Add(time.Minute)
	for range 1000 {
		for range 64 {
			wait, _ = get()
			require.Zero(t, wait)
		}
		now = now.Add(time.Second)
	}
}

var start = time.Unix(1e9, 0)

// TestMemory: of the streams that were dropped, as many as were asked for are remembered, the newest ones.
func TestMemory(t *testing.T) {
	const kept = 10
	m := New(&Config{Remember: kept}, streamID("S"), start)
	m.phase, m.canPoll = phaseOpen, true
	policy := Policy{Mode: SSE}
	id := func(i int) StreamID { return StreamID{1, byte(i)} }
	for i := range 35 {
		m.Step(start, &In{Op: Post, Stream: id(i), Conn: 1, ID: "1", Policy: &policy}, nil)
		m.Step(start, &In{Op: Reply, Stream: id(i), ID: "1"}, nil)
		m.Step(start, &In{Op: Written, Stream: id(i), Conn: 1, Seq: 1}, nil)
		m.Step(start, &In{Op: Gone, Stream: id(i), Conn: 1}, nil)
		m.drop(m.find(id(i)), nil)
		for j := range i + 1 {
			out := m.Step(start, &In{Op: Get, Conn: 2, Flags: HasCursor, Stream: id(j)}, nil)
			want := Attach // to be told that the response was dropped
			if j <= i-kept {
				want = Refuse
			}
			require.Equal(t, want, out[0].Do, "%d dropped, cursor of %d", i+1, j)
		}
	}
	check(t, &m)
}
