package engine

import (
	"strings"
	"testing"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/stretchr/testify/require"
)

const secret = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

func TestEventIDRoundTrip(t *testing.T) {
	id := core.StreamID{0xff, 1, 2, 3}
	name := nameOf(secret, id)
	for _, seq := range []uint64{0, 1, 9, 10, 1<<64 - 1} {
		got, n, ok := ParseEventID(secret, string(appendEventID(nil, &name, seq)))
		require.True(t, ok)
		require.Equal(t, id, got)
		require.Equal(t, seq, n)
		got, n, ok = ParseEventID(secret, string(appendPrimerID(nil, &name, seq, 1<<64-1)))
		require.True(t, ok, "a primer's id is a cursor too")
		require.Equal(t, id, got)
		require.Equal(t, seq, n)
	}
	got, ok := ParseStreamName(secret, StreamName(secret, id))
	require.True(t, ok)
	require.Equal(t, id, got)
}

// A cursor is accepted to the letter, or not at all.
func TestEventIDStrict(t *testing.T) {
	name := StreamName(secret, core.StreamID{})
	for _, bad := range []string{
		"", "1", name, name + ".", name + ".1.", name + ".01", name + ".-1", name + ".+1", name + ". 1", name + ".1 ", name + ".1.A", name + ".1.0a",
		name + ".1.2.3", name + ".18446744073709551616", name + ".1_0", name + ".0x1", name[1:] + ".1", name + "A.1",
		name[:21] + "B.1", // stray bits after the last byte
		name[:21] + "=.1", strings.Repeat("+", 22) + ".1", name + ".1.zzzzzzzzzzzzzz", strings.Repeat("A", 1000), name + ".1\n",
	} {
		_, _, ok := ParseEventID(secret, bad)
		require.False(t, ok, "%q", bad)
	}
}

// Every character of a name is checked, and so is whose session it is.
func TestEventIDOfAnotherSession(t *testing.T) {
	name := StreamName(secret, core.StreamID{1, 2, 3, 4, 5, 6, 7, 8})
	_, _, ok := ParseEventID(secret, name+".1")
	require.True(t, ok)
	for i := range name {
		for _, c := range "AQgw-_09az" {
			other := name[:i] + string(c) + name[i+1:]
			_, _, ok := ParseEventID(secret, other+".1")
			require.Equal(t, other == name, ok, other)
		}
	}
	for _, session := range []string{"", secret[1:], secret + "A", strings.Repeat(secret, 10)} {
		_, _, ok := ParseEventID(session, name+".1")
		require.False(t, ok, session)
	}
	long := strings.Repeat(secret, 10) // rejoin's own ids are shorter, others work as well
	_, _, ok = ParseEventID(long, StreamName(long, core.StreamID{1})+".1")
	require.True(t, ok)
}

func TestStandaloneIDs(t *testing.T) {
	for range 100 {
		require.True(t, IsStandalone(NewStandalone()))
		require.False(t, IsStandalone(newStreamID()))
	}
}

// Names are made and read for each connection, which allocates nothing.
func TestEventIDAllocs(t *testing.T) {
	id := core.StreamID{1}
	cursor := StreamName(secret, id) + ".17"
	buf := make([]byte, 0, 64)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		name := nameOf(secret, id)
		buf = appendPrimerID(buf[:0], &name, 1, 2)
		if _, _, ok := ParseEventID(secret, cursor); !ok {
			t.Fatal("it is a cursor")
		}
	}))
}

func FuzzEventID(f *testing.F) {
	name := StreamName(secret, core.StreamID{})
	f.Add(name + ".1.2")
	f.Add(name + ".0")
	f.Fuzz(func(t *testing.T, s string) {
		id, seq, ok := ParseEventID(secret, s)
		if !ok {
			return
		}
		// Whatever is accepted is what the append functions write: no two spellings of one cursor.
		name := nameOf(secret, id)
		if strings.Count(s, ".") == 1 {
			require.Equal(t, s, string(appendEventID(nil, &name, seq)))
			return
		}
		require.True(t, strings.HasPrefix(s, string(appendEventID(nil, &name, seq))+"."))
	})
}
