package lifetime_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A client opens sessions all the time and ends none. Sessions that were never used again are replaced, others never, and the server uses the
// memory of MaxSessions sessions, however many there were.
func TestTwoHundredThousandInitializesWithoutDelete(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const (
			most, live, waves = 10_000 / kit.Fewer, 100, 20 // MaxSessions is the default
			wave              = most                        // 200,000 in all
			perSession        = 8 << 10
		)
		ended := 0
		// Without SessionIdleTTL: a bubble keeps what a timer refers to until its time, also if the timer was stopped.
		s := kit.NewServer(t, &kit.Fake{OnEnded: func(error) { ended++ }}, rejoin.Config{MaxSessions: most, SessionIdleTTL: -1, Logger: kit.QuietLogger()})
		resting := len(kit.Goroutines())
		base := kit.HeapAlloc()
		var alive []string
		for range live {
			alive = append(alive, kit.OpenReady(t, s))
		}
		opened, refused := 0, 0
		var full uint64
		for n := range waves {
			for range wave {
				switch id, status := kit.OpenNow(t, s, kit.Initialize); status {
				case http.StatusOK:
					opened++
				case http.StatusServiceUnavailable:
					require.Empty(t, id)
					refused++
				default:
					t.Fatal(status)
				}
			}
			require.Equal(t, (n+1)*(most-live), opened, "room is made by those that are 30 s old, and by nobody else")
			kit.Elapse(30 * time.Second)
			if n == 1 {
				full = kit.HeapAlloc()
				require.Less(t, int64(full)-int64(base), int64(most*perSession), "of %d sessions", most)
			}
		}
		require.Equal(t, waves*wave, opened+refused)
		kit.RequireFlat(t, full, most*perSession/8, "nine tenths of them")
		stats := s.Stats()
		require.EqualValues(t, most, stats.Sessions)
		require.EqualValues(t, opened+live, stats.Opened)
		require.EqualValues(t, refused, stats.Refused)
		require.Equal(t, opened-(most-live), ended, "the app is told of each that made room")
		for _, id := range alive {
			require.Equal(t, http.StatusOK, kit.ServeNow(s, kit.InSession(t, id, kit.Ping)).Status, "others are unharmed")
		}
		s.Close()
		require.Zero(t, s.Stats().Sessions)
		kit.RequireFlat(t, base, 4<<20, "when all have ended")
		kit.RequireRested(t, resting)
	})
}

// A session that has ended leaves nothing, not even its timer. This test runs in real time.
func TestVeryManySessionsThatCameAndWent(t *testing.T) {
	const n = 20_000 / kit.Fewer
	s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: 1})
	var base uint64
	for i := range n {
		if i == n/10 {
			base = kit.HeapAlloc()
		}
		id, status := kit.OpenNow(t, s, kit.Initialize)
		require.Equal(t, http.StatusOK, status)
		kit.DeleteNow(t, s, id)
	}
	kit.RequireFlat(t, base, 2<<20, "nine tenths of them")
	require.EqualValues(t, n, s.Stats().Opened)
}

// A session keeps little of its client's initialize: large parts of clientInfo and of the capabilities are left out, but not the client's name,
// nor which capabilities it has.
func TestASessionKeepsLittleOfClientInfo(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const sessions = 20 / min(kit.Fewer, 4)
		var seen []string
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{CanPoll: func(client rejoin.ClientInfo, _ bool) bool {
			var c struct{ Name string }
			require.NoError(t, json.Unmarshal(client.Raw, &c))
			require.Equal(t, c.Name, client.Name)
			require.LessOrEqual(t, len(client.Capabilities), 8<<10)
			require.JSONEq(t, `{"roots":{"listChanged":true},"sampling":{}}`, string(client.Capabilities))
			seen = append(seen, c.Name)
			return true
		}})
		base := kit.HeapAlloc()
		icon := strings.Repeat("x", 20<<10)
		for _, client := range []string{
			`{"icons":[{"src":"data:` + icon + `"}],"name":"big","title":"Big","version":"1"}`, `{"name":"big","x":"` + icon + `","version":"` + icon + `"}`,
		} {
			body := strings.Replace(kit.Initialize, `"clientInfo":{"name":"t","version":"1"}`, `"clientInfo":`+client, 1)
			body = strings.Replace(body, `"capabilities":`+kit.Capabilities, `"capabilities":{"roots":{"listChanged":true},"sampling":"`+icon+`","x":{}}`, 1)
			require.Greater(t, len(body), 40<<10)
			for range sessions {
				_, status := kit.OpenNow(t, s, body)
				require.Equal(t, http.StatusOK, status)
			}
		}
		kit.RequireFlat(t, base, 2*sessions*(8<<10), "sessions whose clients sent as much as they may")
		kept := map[string]int{}
		for info := range s.Sessions() {
			kept[string(info.Client)]++
		}
		require.Equal(t, map[string]int{`{"name":"big","title":"Big","version":"1"}`: sessions, `{"name":"big"}`: sessions}, kept)
		require.Len(t, seen, 2*sessions)
		for _, name := range seen {
			require.Equal(t, "big", name)
		}
	})
}
