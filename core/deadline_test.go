package core

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDeadlines: what is due when, that it is not done a moment before, and that nothing else is due at that time.
func TestDeadlines(t *testing.T) {
	const away = "post A c1 id=1; close A; written c1 A.0; gone c1 A" // due back after a second
	const doubted = away + "; 11s tick"                               // and has not come
	failed := func(why string) string { return strings.ReplaceAll(failed, "%", why) }
	for _, c := range []struct{ name, open, before, at, want string }{
		{"StreamAfter", "stream-after=100ms", "post A c1 id=1", "100ms", primed},
		{"StreamAfter of the request's own policy", "stream-after=100ms", "post A c1 id=1 stream-after=1ms", "1ms", primed},
		{"StreamAfter counts from the POST", "stream-after=100ms", "post A c1 id=1; 60ms reply A 2; touch", "100ms", primed},
		{"StreamAfter off", "stream-after=-1s", "post A c1 id=1", "never", ""},
		{"StreamAfter in mode JSON", "", "post A c1 id=1 mode=json", "never", ""},
		{"StreamAfter where nobody waits", "abandon-after=-1s", "post A c1 id=1; gone c1 A", "never", ""},

		{"CloseAfter", "close-after=50s", "post A c1 id=1; emit A", "50s", "end c1 A.1 retry=1s"},
		{"CloseAfter counts from the POST", "close-after=50s", "post A c1 id=1; 20s emit A", "50s", "end c1 A.1 retry=1s"},
		{"CloseAfter counts from each GET", "close-after=50s", away + "; 5s get c2 A.0", "55s", "end c2 now retry=1s"},
		{"CloseAfter counts from the newest connection", "close-after=50s", "post A c1 id=1; emit A; 5s get c2 A.0", "55s", "end c2 A.1 retry=1s"},
		{"CloseAfter is not moved by events", "close-after=50s", "post A c1 id=1; emit A; 30s emit A; written c1 A.2", "50s", "end c1 A.2 least=1 retry=1s"},
		{"CloseAfter of the standalone stream", "close-after=50s", "3s get c1", "53s", "end c1 now retry=1s"},
		{"CloseAfter before StreamAfter", "close-after=1ms", "post A c1 id=1", "1ms", primed + "; end c1 now retry=1s"},
		{"CloseAfter off", "close-after=-1s", "post A c1 id=1; emit A", "never", ""},
		{"CloseAfter, changed", "close-after=50s", "post A c1 id=1; emit A; adjust A close-after=5s", "5s", "end c1 A.1 retry=1s"},
		{"CloseAfter, changed to less than has passed", "close-after=50s", "post A c1 id=1; emit A; 7s adjust A close-after=5s", "5s", ""},
		{"CloseAfter in mode JSON", "close-after=50s", "post A c1 id=1 mode=json", "never", ""},
		{"CloseAfter after the store failed", "close-after=50s", "post A c1 id=1; emit A; lost A.1", "never", ""},
		{"CloseAfter of a slow reader", "close-after=50s", "post A c1 id=1; emit A; emit A; emit A", "50s", "end c1 A.3 least=1 retry=1s"},
		{"CloseAfter of a slow reader who resumed", "close-after=50s", "post A c1 id=1; emit A; emit A; emit A; 5s get c2 A.1", "55s", "end c2 A.3 least=2 retry=1s"},
		{"CloseAfter of a reader with one event to write", "close-after=50s", "post A c1 id=1; emit A; emit A; emit A; 5s get c2 A.2", "55s", "end c2 A.3 retry=1s"},
		{"CloseAfter of a slow reader of the standalone stream", "close-after=50s", "emit; emit; 3s get c1", "53s", "end c1 S.2 least=1 retry=1s"},
		{"CloseAfter after a close", "close-after=50s", "post A c1 id=1; emit A; emit A; 9s close A retry=7s", "50s", "end c1 A.2 least=1 retry=7s"},
		{"CloseAfter after a close and the response", "close-after=50s", "post A c1 id=1; emit A; emit A; 9s close A retry=7s; reply A 1", "50s", "end c1 A.2 least=1 retry=7s"},
		{"CloseAfter after a close, nothing left", "close-after=50s", "post A c1 id=1; emit A; 9s close A retry=7s", "never", ""},
		{"CloseAfter after a gap", "close-after=50s", "post A c1 id=1; emit A; emit A; emit A; gap c1 A.2 expired; reply A 1", "never", ""},
		{"CloseAfter of an ended stream", "close-after=50s", "post A c1 id=1; emit A; reply A 1", "50s", "end c1 A.2 least=1 retry=1s ended"},
		{"CloseAfter of an ended stream, counted from the GET", "close-after=50s", "post A c1 id=1; emit A; emit A; reply A 1; 7s get c2 A.1", "57s", "end c2 A.3 least=2 retry=1s ended"},
		{"CloseAfter of an ended stream with one event left", "close-after=50s", "post A c1 id=1; emit A; reply A 1; 7s get c2 A.1", "never", ""},
		{"CloseAfter of a cancelled stream", "close-after=50s", "post A c1 id=1; emit A; emit A; cancel 1", "50s", "end c1 A.2 least=1 cancelled"},
		{"a limit of an ended stream", "", "post A c1 id=1; emit A; reply A 1; 7s get c2 A.0 limit=5s", "12s", "end c2 A.2 least=1 retry=1s ended"},

		{"a limit of the connection", "", "post A c1 id=1 limit=20s; emit A", "20s", "end c1 A.1 retry=1s"},
		{"a limit before the head", "", "post A c1 id=1 limit=50ms", "50ms", primed + "; end c1 now retry=1s"},
		{"a limit before CloseAfter", "close-after=50s", "post A c1 id=1 limit=20s; emit A", "20s", "end c1 A.1 retry=1s"},
		{"a limit after CloseAfter", "close-after=50s", "post A c1 id=1 limit=60s; emit A", "50s", "end c1 A.1 retry=1s"},
		{"a limit of a poll", "", away + "; 5s get c2 A.0 limit=20s", "25s", "end c2 now retry=1s"},
		{"a limit is that of its own connection", "", "post A c1 id=1 limit=20s; emit A; get c2 A.0", "never", ""},
		{"a limit of the standalone stream", "", "get c1 limit=20s", "20s", "end c1 now retry=1s"},
		{"a limit in mode JSON", "", "post A c1 id=1 mode=json limit=20s", "never", ""},

		{"AbandonAfter counts from when the client was due back", "", doubted, "10m1s", failed("abandoned")},
		{"AbandonAfter, told to stay away for an hour", "", "post A c1 id=1; close A retry=1h; written c1 A.0; gone c1 A; 1h10s tick", "1h10m", failed("abandoned")},
		{"AbandonAfter counts from the loss", "", "post A c1 id=1; emit A; written c1 A.1; 5m gone c1 A", "15m1s", failed("abandoned")},
		{"AbandonAfter is not counted while the connection ends", "", "post A c1 id=1; close A; 5m written c1 A.0", "never", ""},
		{"AbandonAfter counts anew from each poll", "", away + "; 5m get c2 A.0; gone c2 A", "15m1s", failed("abandoned")},
		{"AbandonAfter of an unreachable request", "", "post A c1 id=1; gone c1 A", "10m", failed("abandoned")},
		{"AbandonAfter off", "abandon-after=-1s", doubted, "never", ""},
		{"AbandonAfter while somebody reads", "", "post A c1 id=1; emit A", "never", ""},
		{"AbandonAfter, ordered once", "", away + "; 10m1s tick", "never", ""},

		{"a client is late", "", away, "11s", "doubt A"},
		{"a client is late that was told to stay away for an hour", "", "post A c1 id=1; close A retry=1h; written c1 A.0; gone c1 A", "1h10s", "doubt A"},
		{"it is late for what was answered meanwhile", "", away + "; 0.5s reply A 1", "11s", "doubt A"},
		{"it is late for what is kept no longer", "retain=1s", away + "; 0.5s reply A 1", "2s", "doubt A; drop A"},
		{"it is not late for what it has", "", "post A c1 id=1; emit A; close A; reply A 1; written c1 A.1; gone c1 A", "11s", "doubt A"},
		{"it is not late before its connection has ended", "", "post A c1 id=1; close A; 5m written c1 A.0", "never", ""},
		{"it is not late for a connection that broke", "", "post A c1 id=1; emit A; written c1 A.1; gone c1 A", "10m1s", failed("abandoned")},
		{"it is not late for what it cannot come back to", "", "post A c1 id=1; close A; gone c1 A", "10m1s", failed("abandoned")},
		{"it is not late for the standalone stream", "idle=-1s", "get c1; close S; written c1 S.0; gone c1 S", "never", ""},
		{"it is not late for what it cancelled", "idle=-1s", away + "; cancel 1", "never", ""},
		{"who came back once is never late", "", away + "; 5m get c2 A.0; close A; written c2 A.0; gone c2 A", "15m1.5s", failed("abandoned")},

		{"MaxRuntime", "max-runtime=30s", "post A c1 id=1; emit A", "30s", failed("overran")},
		{"MaxRuntime while away", "max-runtime=30s", doubted, "30s", failed("overran")},
		{"MaxRuntime is not moved by polls", "max-runtime=30s", away + "; 20s get c2 A.0", "30s", failed("overran")},
		{"MaxRuntime in mode JSON", "max-runtime=30s", "post A c1 id=1 mode=json", "30s", failed("overran")},
		{"MaxRuntime of the standalone stream", "max-runtime=30s", "get c1", "never", ""},

		{"Retain counts from when the client was due back", "", away + "; 0.5s reply A 1; 11s tick", "5m1s", "drop A"},
		{"Retain counts from the response", "", doubted + "; 3m reply A 1", "8m", "drop A"},
		{"Retain is not counted while somebody reads", "", away + "; 3m reply A 1; get c2 A.0", "never", ""},
		{"Retain counts from the end of that", "", away + "; 3m reply A 1; get c2 A.0; 10m gone c2 A", "15m1s", "drop A"},
		{"Retain is not moved by a poll that finds nothing", "", away + "; 3m reply A 1; 4m get c2 A.1; gone c2", "8m", "drop A"},
		{"Retain off", "retain=-1s idle=-1s", away + "; reply A 1; 11s tick", "never", ""},

		{"SessionIdleTTL", "", "touch", "30m", "end-session idle"},
		{"SessionIdleTTL counts from each sign of life", "", "5m touch; 6m cancel 7; 7m get c1 A.0; 8m gone c1", "38m", "end-session idle"},
		{"SessionIdleTTL counts from when a client was due back", "", "get c1; close S retry=45m; gone c1 S", "1h15m", "end-session idle"},
		{"SessionIdleTTL counts from the end of a call", "abandon-after=-1s", "post A c1 id=1; gone c1 A; 20m reply A 1", "50m", "end-session idle"},
		{"SessionIdleTTL while somebody reads", "", "get c1", "never", ""},
		{"SessionIdleTTL while something runs", "abandon-after=-1s", "post A c1 id=1; gone c1 A", "never", ""},
		{"SessionIdleTTL while a refusal is written", "", "get c1 A.7", "never", ""},
		{"SessionIdleTTL off", "idle=-1s", "touch", "never", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.all("0s open 2025-11-25 " + c.open)
			for line := range strings.SplitSeq(c.before, "; ") {
				s.all(line)
			}
			if c.at == "never" {
				require.Equal(t, "never", s.all("deadline"))
				require.Equal(t, "nothing", s.all("1000h tick"))
				return
			}
			at, err := time.ParseDuration(c.at)
			require.NoError(t, err)
			require.Equal(t, at.String(), s.all("deadline"))
			if at < s.at { // it is due already
				require.NotEqual(t, "nothing", s.all("tick"))
				return
			}
			s.at = at - 1
			require.Equal(t, "nothing", s.all("tick"), "before its time")
			s.at = at
			require.Equal(t, c.want, s.all("tick"))
			require.Equal(t, "nothing", s.all("tick"), "done once")
		})
	}
}

// TestDeadlineOrder: what has become due of many streams is done in one tick, in the order in which it became due.
func TestDeadlineOrder(t *testing.T) {
	s := newScript(t)
	s.all("0s open 2025-11-25 stream-after=-1s",
		"post A c1 id=1 max-runtime=3s", "post B c2 id=2 max-runtime=1s", "post C c3 id=3 max-runtime=5s", "post D c4 id=4 max-runtime=2s",
		"post E c5 id=5 max-runtime=4s")
	require.Equal(t, "1s", s.all("deadline"))
	require.Equal(t, "cancel-app B id=2 overran; fail B id=2 overran; cancel-app D id=4 overran; fail D id=4 overran; "+
		"cancel-app A id=1 overran; fail A id=1 overran", s.all("3.5s tick"))
	require.Equal(t, "4s", s.all("deadline"))
	s.all("cancel 5")
	require.Equal(t, "5s", s.all("deadline"))

	// The time of an input is taken, but what is due is only done by a tick; and time never goes back.
	require.Equal(t, "nothing", s.all("6s touch"))
	s.at = 0
	require.Equal(t, "cancel-app C id=3 overran; fail C id=3 overran", s.all("tick"))
}
