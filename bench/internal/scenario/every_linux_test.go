package scenario

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// quickly lists the subjects with which each scenario is tried, besides their bases: rejoin's own, and one of another kind if the scenario
// treats it differently. Package subject tests all subjects.
var quickly = map[string][]string{
	"calls-pinned":  {"rejoin-json", "rejoin-chi", "gosdk-json-raw"},
	"calls-shared":  {"rejoin-sse", "mcpgo-sse-store"},
	"calls-modern":  {"rejoin-modern", "rejoin-gosdk-modern-tasks", "mcpgo-modern"},
	"handler":       {"rejoin-json", "gosdk-json"},
	"sessions":      {"rejoin-json"},
	"burst-1":       {"rejoin-sse", "mcpgo-sse"},
	"burst-8":       {"rejoin-sse"},
	"replay-1000":   {"rejoin-sse", "mcpgo-sse-store"}, // mcp-go sends no primer and cannot close: it is replayed from its first notification
	"replay-100000": {"gosdk-sse-store"},
	"replay-first":  {"rejoin-sse"},
	"memory-idle":   {"rejoin-sse", "rejoin-json"},
	"memory-get":    {"rejoin-sse", "mcpgo-sse"},
	"memory-post":   {"rejoin-sse", "gosdk-sse"},
	"memory-parked": {"rejoin-sse"},
	"memory-tasks":  {"rejoin-modern-tasks", "rejoin-mcpgo-modern-tasks"},
	"parked-polls":  {"rejoin-sse"},
	"tasks-polled":  {"rejoin-gosdk-modern-tasks"},
	"append":        {ownStore},

	"cluster-calls":   {"rejoin-cluster-json", "rejoin-cluster-500-json", "rejoin-cluster-sse", "rejoin-cluster-500-sse"},
	"cluster-burst-1": {"rejoin-cluster-sse", "rejoin-cluster-0-sse", "rejoin-cluster-500-sse"},
	"cluster-burst-8": {"rejoin-cluster-500-sse"},

	"forwarded-calls": {"rejoin-forwarded-json", "rejoin-forwarded-sse"},
	"forwarded-get":   {"rejoin-forwarded-sse"},
}

// counted has values of rejoin's own subjects that are the same on every machine: a session needs no goroutine, a parked call one, a request
// that is not answered two more; each parked call is answered once; an append to a full store allocates nothing. A task needs one for its tool and one for
// the handler that waits for it, and behind go-sdk one more.
var counted = map[string]map[string]float64{
	"memory-idle":   {"goroutines": 0},
	"memory-get":    {"goroutines": 2},
	"memory-post":   {"goroutines": 3},
	"memory-parked": {"goroutines": 1, "answered-goroutines": 0},
	"parked-polls":  {"goroutines": 1, "parked": 200, "lost": 0, "twice": 0},
	"memory-tasks":  {"goroutines": 2, "answered-goroutines": 0, "lost": 0},
	"tasks-polled":  {"goroutines": 3, "tasks": 200, "lost": 0, "wrong": 0},
	"append":        {"allocs": 0},
	"burst-1":       {"lost": 0},
	"burst-8":       {"lost": 0},

	"cluster-burst-1": {"lost": 0},
	"cluster-burst-8": {"lost": 0},
}

// engineCallsOf has the calls of a cluster's engine that a call of a tool takes, whatever the engine is: a quick JSON answer none, a stored answer the
// one that records it.
var engineCallsOf = map[string]float64{
	"rejoin-json": 0, "rejoin-cluster-json": 0, "rejoin-cluster-500-json": 0,
	"rejoin-sse": 0, "rejoin-cluster-sse": 1, "rejoin-cluster-500-sse": 1,
	"rejoin-forwarded-json": 0, "rejoin-forwarded-sse": 1,
}

// fewEngineCalls checks how often a cluster's engine was called.
func fewEngineCalls(t *testing.T, scenario, name string, value func(key string) float64) {
	t.Helper()
	if scenario == "cluster-calls" || scenario == "forwarded-calls" {
		want, ok := engineCallsOf[name]
		require.True(t, ok, name)
		if want == 0 {
			require.Zero(t, value("trips"), name)
		}
		require.InDelta(t, want, value("trips"), 0.4, "%s: a stream that is begun before its answer is there takes one more", name)
	}
	if strings.HasPrefix(scenario, "cluster-burst-") && name == "rejoin-cluster-500-sse" {
		require.Positive(t, value("appends"), name)
		require.Less(t, value("appends"), 0.1, "%s: many notifications are appended at once", name)
	}
}

// isForwarded checks that requests reached the owner of their session through another server, or at once.
func isForwarded(t *testing.T, scenario, name string, value func(key string) float64) {
	t.Helper()
	forwarded := strings.HasPrefix(name, "rejoin-forwarded-")
	switch scenario {
	case "forwarded-calls":
		require.Equal(t, forwarded, value("writes") > 2.5, "%s: a forwarded call takes three writes, and %v were counted", name, value("writes"))
		require.Less(t, value("dials"), 0.5, name)
	case "forwarded-get":
		goroutines := 2.0
		if forwarded { // two of the server in between, and two of its connection to the owner
			goroutines = 6
		}
		require.InDelta(t, goroutines, value("goroutines"), 0.4, name)
	}
}

// positive are metrics that must be above 0 for every subject.
var positive = []string{
	"calls/s", "cycles/s", "cycles/s idle", "events/s", "polls/s", "all", "first", "few", "many", "tail", "none", "some", "p50", "p99",
	"alone",
}

// Each scenario runs, and has all its values. A test cannot say how large they must be. The time limit is far beyond what a run takes.
func TestEveryScenarioRuns(t *testing.T) {
	t.Parallel()
	all := All()
	require.Len(t, quickly, len(all))
	for _, s := range all {
		t.Run(s.ID, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			wanted := quickly[s.ID]
			require.NotEmpty(t, wanted)
			env := &Env{Quick: true, Server: 0, Client: 1, Log: t.Logf}
			table, err := Measure(ctx, env, s, func(name string) bool { return slices.Contains(wanted, name) }, 1)
			require.NoError(t, err)
			var names []string
			for _, row := range table.Rows {
				names = append(names, row.Subject)
				require.Len(t, row.Values, len(s.Metrics), "%s: a column is empty", row.Subject)
				for key, v := range row.Values {
					require.Len(t, v.Rounds, 1, "%s, %s", row.Subject, key)
					require.False(t, math.IsNaN(v.Median) || math.IsInf(v.Median, 0), "%s, %s", row.Subject, key)
					if slices.Contains(positive, key) {
						require.Positive(t, v.Median, "%s, %s", row.Subject, key)
					}
					if want, ok := counted[s.ID][key]; ok && strings.HasPrefix(row.Subject, "rejoin-") {
						require.InDelta(t, want, v.Median, 0.4, "%s, %s", row.Subject, key)
					}
					if key == "lost" && !strings.HasPrefix(row.Subject, "mcpgo-") { // mcp-go is known to lose some
						require.Zero(t, v.Median, "%s lost some", row.Subject)
					}
				}
				value := func(key string) float64 { return row.Values[key].Median }
				fewEngineCalls(t, s.ID, row.Subject, value)
				isForwarded(t, s.ID, row.Subject, value)
				if strings.HasPrefix(s.ID, "replay-1") {
					require.GreaterOrEqual(t, row.Values["all"].Median, row.Values["first"].Median, row.Subject)
					require.Greater(t, row.Values["bytes"].Median, 100.0, row.Subject)
				}
				if strings.HasPrefix(s.ID, "memory-") && row.Subject == "rejoin-sse" {
					require.Positive(t, row.Values["heap"].Median)
				}
			}
			require.Subset(t, names, wanted)
		})
	}
}

func TestScenariosAreComplete(t *testing.T) {
	ids := map[string]bool{}
	for _, s := range slices.Concat(All(), Redis()) {
		require.False(t, ids[s.ID], "%s is there twice", s.ID)
		ids[s.ID] = true
		require.NotEmpty(t, s.Title, s.ID)
		require.NotEmpty(t, s.Text, s.ID)
		require.Positive(t, s.Rounds, s.ID)
		require.NotEmpty(t, s.Subjects, s.ID)
		keys := map[string]bool{}
		for _, m := range s.Metrics {
			require.False(t, keys[m.Key], "%s has two columns %q", s.ID, m.Key)
			keys[m.Key] = true
			require.NotEmpty(t, m.Title, "%s, %s", s.ID, m.Key)
		}
		names := map[string]bool{}
		for _, name := range s.Subjects {
			require.False(t, names[name], "%s has %s twice", s.ID, name)
			names[name] = true
			if s.Base != nil {
				continue
			}
			found, ok := subject.Find(name)
			require.True(t, ok, "%s: no subject is named %q", s.ID, name)
			require.Contains(t, s.Subjects, found.Base, "%s has no base for %s", s.ID, name)
		}
	}
}
