package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The limit of open files is raised if it must be and can be. Otherwise the error says what is missing.
func TestRoomForConnections(t *testing.T) {
	for _, test := range []struct {
		soft, hard, want uint64
		fault            string
	}{
		{1024, 4096, 1024, ""},
		{300, 4096, 4096, ""},
		{300, 699, 0, "500 connections need a limit of 700 open files, and 699 is the most that is allowed here (ulimit -Hn)"},
	} {
		got, err := room(unix.Rlimit{Cur: test.soft, Max: test.hard}, 500)
		if test.fault != "" {
			require.EqualError(t, err, test.fault)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, unix.Rlimit{Cur: test.want, Max: test.hard}, got)
	}
	require.NoError(t, needFiles(1))
}
