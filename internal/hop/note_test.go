package hop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestANoteIsReadAsItWasWritten(t *testing.T) {
	for _, n := range []Note{
		{To: "A"},
		{To: "A", By: "http://10.0.0.1:8080"},
		{To: "A", By: "http://[::1]:8080", NoFlush: true, Left: time.Second},
		{To: "A", By: "http://a;b,c=d e:1", Probe: true},
		{To: "A", Left: 1500 * time.Millisecond},
	} {
		got, ok := ParseNote([]string{n.String()})
		require.True(t, ok, n)
		require.Equal(t, n, got)
	}
	got, ok := ParseNote([]string{Note{To: "A", Left: time.Microsecond}.String()})
	require.True(t, ok)
	require.Equal(t, time.Millisecond, got.Left, "no limit would be another thing")
	got, ok = ParseNote([]string{Note{To: "A", Left: 365 * 24 * time.Hour}.String()})
	require.True(t, ok)
	require.Greater(t, got.Left, 24*24*time.Hour)
}

func TestANoteOfALaterVersion(t *testing.T) {
	got, ok := ParseNote([]string{"A; by=http%3A%2F%2Fb; new=1; newer"})
	require.True(t, ok)
	require.Equal(t, Note{To: "A", By: "http://b"}, got)
}

func TestWhatIsNoNote(t *testing.T) {
	for _, values := range [][]string{nil, {""}, {" "}, {";"}, {"; probe"}, {"A", "A"}, {"A; left=-1"}, {"A; left=x"}, {"A; left=99999999999"}} {
		_, ok := ParseNote(values)
		require.False(t, ok, "%q", values)
	}
}

// What is read of any value is written and read again as the same.
func FuzzNote(f *testing.F) {
	for _, value := range []string{"A; by=http%3A%2F%2Fb%3A1; no-flush; left=5; probe", "A", "", ";", "A;;left=1;left=2", "A; by=%zz"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		n, ok := ParseNote([]string{value})
		if !ok {
			return
		}
		again, ok := ParseNote([]string{n.String()})
		require.True(t, ok, "%q", n.String())
		require.Equal(t, n, again)
	})
}
