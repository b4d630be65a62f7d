package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestIdle: an idle session holds no stream table.
func TestIdle(t *testing.T) {
	s := newScript(t)
	s.all("open 2025-11-25 idle=30m")
	require.Nil(t, s.m.streamTable, "after initialize")
	s.all("1s touch", "2s tick")
	require.Nil(t, s.m.streamTable, "nor is it needed for a sign of life")
	require.Equal(t, "30m1s", s.all("deadline"))
	require.True(t, s.m.Resumable(streamID("S")))
	require.False(t, s.m.Resumable(streamID("A")))

	s.all("post A c1 id=1", "reply A 1", "gone c1 A")
	require.NotNil(t, s.m.streamTable, "it is kept between calls")
	s.all("3s tick")
	require.Nil(t, s.m.streamTable)

	s.all("post A c1 id=1", "emit A")
	require.Equal(t, int32(1), s.m.Route(&In{Op: Emit, Stream: streamID("A")}))
	s.all("written c1 A.1", "reply A 1", "gone c1 A", "4s tick")
	require.NotNil(t, s.m.streamTable, "a stream is kept")
	s.all("10m tick")
	require.NotNil(t, s.m.streamTable, "its numbers are")
	require.Equal(t, 1, cap(s.m.streams))
	require.Nil(t, s.m.byID)
	require.Nil(t, s.m.inflight)
	require.Nil(t, s.m.free)
	require.Equal(t, "refuse c2 nothing-left", s.all("get c2 A.2"))
	require.Equal(t, "attach c3 A.3 nothing-to-read; head c3; primer c3 A.3.n3 retry=1s; error c3 A.3.n4 id=1 expired; end c3 now expired",
		s.all("get c3 A.3"))
}

// TestIdleStandalone: what has happened on the standalone stream is not lost.
func TestIdleStandalone(t *testing.T) {
	for name, story := range map[string][]string{
		"an event":  {"emit"},
		"a primer":  {"get c1", "gone c1 S"},
		"a failure": {"emit", "lost S.1", "full S.1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.all("open 2025-11-25 idle=30m")
			s.all(story...)
			s.all("1s tick")
			require.NotNil(t, s.m.streamTable)
		})
	}
	s := newScript(t)
	s.all("open 2025-11-25 idle=30m", "get c1")
	s.all("1s tick")
	require.NotNil(t, s.m.streamTable, "the standalone stream has a reader")
}

// TestIdleDelay: a session that was idle remembers how many GETs came.
func TestIdleDelay(t *testing.T) {
	m := New(&Config{}, streamID("S"), start)
	m.phase = phaseOpen
	for range getBurst {
		m.Step(start, &In{Op: Get, Conn: 1}, nil)
		m.Step(start, &In{Op: Gone, Conn: 1, Stream: streamID("S")}, nil)
	}
	m.Step(start.Add(time.Millisecond), &In{Op: Tick}, nil)
	require.Nil(t, m.streamTable, "its client cannot poll, and was told nothing")
	require.Positive(t, m.Step(start.Add(time.Millisecond), &In{Op: Get, Conn: 1}, nil)[1].Dur)
}
