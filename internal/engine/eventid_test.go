package engine

import (
	"strings"
	"testing"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/stretchr/testify/require"
)

func TestEventIDRoundTrip(t *testing.T) {
	id := core.StreamID{0xff, 1, 2, 3}
	for _, seq := range []uint64{0, 1, 9, 10, 1<<64 - 1} {
		got, n, ok := ParseEventID(string(appendEventID(nil, id, seq)))
		require.True(t, ok)
		require.Equal(t, id, got)
		require.Equal(t, seq, n)
		got, n, ok = ParseEventID(string(appendPrimerID(nil, id, seq, 1<<64-1)))
		require.True(t, ok, "a primer's id is a cursor too")
		require.Equal(t, id, got)
		require.Equal(t, seq, n)
	}
}

// A cursor is accepted to the letter, or not at all.
func TestEventIDStrict(t *testing.T) {
	name := string(appendStreamName(nil, core.StreamID{}))
	for _, bad := range []string{
		"", "1", name, name + ".", name + ".1.", name + ".01", name + ".-1", name + ".+1", name + ". 1", name + ".1 ", name + ".1.A", name + ".1.0a",
		name + ".1.2.3", name + ".18446744073709551616", name + ".1_0", name + ".0x1", name[1:] + ".1", name + "A.1",
		name[:21] + "B.1", // stray bits after the last byte
		name[:21] + "=.1", strings.Repeat("+", 22) + ".1", name + ".1.zzzzzzzzzzzzzz", strings.Repeat("A", 1000), name + ".1\n",
	} {
		_, _, ok := ParseEventID(bad)
		require.False(t, ok, "%q", bad)
	}
}

func FuzzEventID(f *testing.F) {
	f.Add("AAAAAAAAAAAAAAAAAAAAAA.1.2")
	f.Add("AAAAAAAAAAAAAAAAAAAAAA.0")
	f.Fuzz(func(t *testing.T, s string) {
		id, seq, ok := ParseEventID(s)
		if !ok {
			return
		}
		// Whatever is accepted is what the append functions write: no two spellings of one cursor.
		if strings.Count(s, ".") == 1 {
			require.Equal(t, s, string(appendEventID(nil, id, seq)))
			return
		}
		require.True(t, strings.HasPrefix(s, string(appendEventID(nil, id, seq))+"."))
	})
}
