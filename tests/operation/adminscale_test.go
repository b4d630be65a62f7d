package operation_test

import (
	"net/http"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// An operator's page lists all sessions and closes their streams. The time for one session does not depend on the number of sessions: each is found
// by its Ref. The shortest of several runs counts, because the machine may be busy.
func TestAnAdminLoopIsLinear(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const few = 100
	many := 20_000 / min(kit.Fewer, 4)
	small, large := closesOf(t, few, few), closesOf(t, many, few)
	require.Less(t, large, time.Duration(many/few/5)*small, "of %d sessions %d took %v, of %d %v", few, few, small, many, large)
}

// closesOf returns how long it takes to close the streams of some of all sessions.
func closesOf(t *testing.T, sessions, some int) time.Duration {
	t.Helper()
	s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: -1, SessionIdleTTL: -1, Logger: kit.QuietLogger()})
	for range sessions {
		_, status := kit.OpenNow(t, s, kit.Initialize)
		require.Equal(t, http.StatusOK, status)
	}
	var all []rejoin.SessionInfo
	for info := range s.Sessions() {
		if all = append(all, info); len(all) == some {
			break
		}
	}
	shortest := time.Hour
	for range 10 {
		began := time.Now()
		for _, info := range all {
			closed, err := s.CloseStreams(info.Ref, 0)
			require.NoError(t, err)
			require.Zero(t, closed)
			require.NoError(t, s.CloseStream(info.Streams[0].Ref, 0))
		}
		shortest = min(shortest, time.Since(began))
	}
	return shortest
}

// A session that has ended is not found any more, by none of its names.
func TestWhatHasEndedIsNotFoundByItsRef(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{Node: "a-1", MaxSessions: 3})
		for round := range 20 {
			id, refused := kit.Open(t, s)
			require.Empty(t, refused)
			all := kit.Sessions(s)
			require.Len(t, all, 1)
			ref, stream := all[0].Ref, all[0].Streams[0].Ref
			require.NoError(t, s.CloseStream(stream, 0))
			for _, unknown := range []rejoin.StreamRef{
				stream + "0", "0" + stream, rejoin.StreamRef(ref + "-00"), rejoin.StreamRef(ref + "-+0"), rejoin.StreamRef(ref + "--0"),
				rejoin.StreamRef(ref + "-4294967296"), "a-1", "a", "-", "",
			} {
				require.ErrorIs(t, s.CloseStream(unknown, 0), rejoin.ErrUnknown, unknown)
			}
			if round%2 == 0 {
				kit.DeleteNow(t, s, id)
			} else {
				require.NoError(t, s.EndSession(ref))
			}
			require.ErrorIs(t, s.EndSession(ref), rejoin.ErrUnknown)
			require.ErrorIs(t, s.CloseStream(stream, 0), rejoin.ErrUnknown)
		}
	})
}
