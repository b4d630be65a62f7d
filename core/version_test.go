package core

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersions(t *testing.T) {
	names := make([]string, 0, len(Versions))
	for _, v := range Versions {
		names = append(names, v.Name)
		found, ok := Find(v.Name)
		require.True(t, ok)
		require.Equal(t, v, found)
		require.Equal(t, v.Name == "2025-11-25", v.Polls, "%s: primers and closes came with SEP-1699", v.Name)
		require.Equal(t, v.Name == "2025-03-26", v.Batches, "%s: batches came and went with one version", v.Name)
		require.False(t, IsModern(v.Name))

		m := New(&Config{}, streamID("S"), start)
		require.False(t, m.CanPoll(), "it is not known yet")
		m.Step(start, &In{Op: Opened, ID: v.Name}, nil)
		require.Equal(t, v.Polls, m.CanPoll())
		m.Step(start, &In{Op: Delete}, nil)
		require.Equal(t, v.Polls, m.CanPoll())
	}
	require.Equal(t, []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}, names)
	require.True(t, slices.IsSortedFunc(names, func(a, b string) int { return strings.Compare(b, a) }), "newest first")
	for _, name := range []string{"", "2025-11-24", "2025-11-2", "2025-11-255", " 2025-11-25", FirstModern, "latest"} {
		_, ok := Find(name)
		require.False(t, ok, name)
	}
}

func TestIsModern(t *testing.T) {
	for name, want := range map[string]bool{
		"2026-07-28": true, "2026-07-29": true, "2026-10-01": true, "2027-01-01": true, "9999-12-31": true,
		"2026-07-27": false, "2026-06-30": false, "2025-11-25": false, "0000-00-00": false,
		"": false, "latest": false, "draft": false, "2026-7-28": false, "2026-07-2": false, "2026-07-288": false, "2026/07/28": false,
		"2026-07x28": false, "202a-07-28": false, "20260-7-28": false, "2026-07-28 ": false, "２０２７-01-01": false, "zzzz-zz-zz": false,
		"+026-07-28": false, "2026-07-28T00:00": false,
	} {
		require.Equal(t, want, IsModern(name), "%q", name)
	}
}

// TestRoute: where a message would be recorded is known before it is stepped, and is where it is recorded.
func TestRoute(t *testing.T) {
	s := newScript(t)
	s.all("0s open 2025-11-25", "post A c1 id=1 mode=sse", "post B c2 id=2 mode=json", "post C c3 id=3", "gone c3 C")
	a, b, c, other := streamID("A"), streamID("B"), streamID("C"), streamID("X")
	at := s.index[a]
	for _, r := range []struct {
		in   In
		want int32
	}{
		{In{Op: Emit, Stream: a}, at},
		{In{Op: Reply, Stream: a, ID: "1"}, at},
		{In{Op: Emit}, 0},
		{In{Op: Emit, Stream: streamID("S"), Flags: Progress}, 0},
		{In{Op: Emit, Stream: b}, 0},
		{In{Op: Emit, Stream: b, Flags: Progress}, -1},
		{In{Op: Emit, Stream: b, Flags: Ask}, -1},
		{In{Op: Emit, Stream: c}, -1},
		{In{Op: Emit, Stream: other}, 0},
		{In{Op: Emit, Stream: other, Flags: Progress}, -1},
		{In{Op: Reply, Stream: other, ID: "1"}, -1},
	} {
		require.Equal(t, r.want, s.m.Route(&r.in), showIn(r.in))
	}
	s.all("delete")
	require.Equal(t, int32(-1), s.m.Route(&In{Op: Emit}))
	require.Equal(t, int32(-1), s.m.Route(&In{Op: Reply, Stream: a, ID: "1"}))
	require.False(t, s.m.Resumable(a))
	require.False(t, s.m.Resumable(streamID("S")))
}
