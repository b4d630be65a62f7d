//go:build redis

package scenario

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// redisCounted has values that are the same on every machine: what engines and servers do, not how fast.
var redisCounted = map[string]map[string]map[string]float64{
	"redis-calls": {
		"rejoin-redis-json": {"trips": 0},
		"rejoin-redis-sse":  {"trips": 1},
	},
	"redis-forwarded": {
		"rejoin-redis-json": {"trips": 0}, "rejoin-redis-forwarded-json": {"trips": 0},
		"rejoin-redis-sse": {"trips": 1}, "rejoin-redis-forwarded-sse": {"trips": 1},
	},
	"redis-burst-1":  {"rejoin-redis-sse": {"lost": 0, "trips": 0}},
	"redis-burst-8":  {"rejoin-redis-sse": {"lost": 0, "trips": 0}},
	"redis-replay":   {"rejoin-redis-sse": {"trips": 0}},
	"redis-adoption": {"rejoin-redis-sse": {"trips": 3}},
}

// Each scenario with an engine runs, and has all its values; those of subjects without one lack what it does.
func TestEveryScenarioWithAnEngineRuns(t *testing.T) {
	t.Parallel()
	for _, s := range Redis() {
		t.Run(s.ID, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			env := &Env{Quick: true, Server: 0, Client: 1, Log: t.Logf}
			table, err := Measure(ctx, env, s, func(name string) bool { return name != "rejoin-cluster-json" && name != "rejoin-cluster-sse" }, 1)
			require.NoError(t, err)
			tested := 0
			for _, row := range table.Rows {
				for key, want := range redisCounted[s.ID][row.Subject] {
					require.InDelta(t, want, row.Values[key].Median, 0.4, "%s, %s", row.Subject, key)
					tested++
				}
				if row.Subject == "rejoin-redis-sse" {
					require.Len(t, row.Values, len(s.Metrics), "a column is empty")
				}
				for _, key := range []string{"session", "call", "two", "event", "data", "p50", "all", "next", "known"} {
					if v, ok := row.Values[key]; ok {
						require.Positive(t, v.Median, "%s, %s", row.Subject, key)
					}
				}
			}
			require.True(t, tested > 0 || s.ID == "redis-memory")
			require.True(t, slices.Contains(s.Subjects, "rejoin-redis-sse"))
		})
	}
}

func TestRedisVersion(t *testing.T) {
	version, err := RedisVersion(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^[0-9]+\.[0-9]+\.[0-9]+$`, version)
}
