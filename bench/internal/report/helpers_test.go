package report

import (
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/scenario"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// syntheticRun is a run with all scenarios, subjects and metrics, in which each value is different.
func syntheticRun() results.Run { return synthetic(scenario.All()) }

// syntheticEngine is the same of those with an engine.
func syntheticEngine() results.Run { return synthetic(scenario.Redis()) }

func synthetic(scenarios []scenario.Scenario) results.Run {
	run := results.Run{
		Date: "2026-01-02T03:04:05Z", Machine: results.Machine{CPU: "none", Cores: 2, Memory: 8 << 30, System: "no system"},
		Versions: map[string]string{"go": "go0"}, Rounds: 3, Seconds: 1,
	}
	for _, s := range scenarios {
		table := results.Scenario{ID: s.ID, Title: s.Title, Text: s.Text, Metrics: s.Metrics}
		for _, name := range s.Subjects {
			found, _ := subject.Find(name)
			r := results.Row{Subject: name, Base: found.Base, Values: map[string]results.Value{}}
			for _, m := range s.Metrics {
				h := fnv.New32()
				_, _ = h.Write([]byte(s.ID + name + m.Key))
				v := float64(h.Sum32()%1000 + 1)
				r.Values[m.Key] = results.Value{Median: v, Rounds: []float64{v, v * 0.9, v * 1.1}, Ratio: v / 500}
			}
			table.Rows = append(table.Rows, r)
		}
		run.Scenarios = append(run.Scenarios, table)
	}
	return run
}

// small is a run of one scenario "s" with the columns "gain" and "cost".
func small(rows map[string][2][]float64) results.Run {
	s := results.Scenario{ID: "s", Title: "T", Text: "X", Metrics: []results.Metric{{Key: "gain", Title: "gain"}, {Key: "cost", Title: "cost", Less: true}}}
	for _, name := range sortedKeys(rows) {
		r := results.Row{Subject: name, Base: "bare", Values: map[string]results.Value{}}
		for i, key := range []string{"gain", "cost"} {
			if values := rows[name][i]; len(values) > 0 {
				r.Values[key] = results.Value{Median: median(values), Rounds: values}
			}
		}
		s.Rows = append(s.Rows, r)
	}
	return results.Run{Scenarios: []results.Scenario{s}}
}

func at(subject, metric string) cell { return cell{Scenario: "s", Subject: subject, Metric: metric} }

// judged judges one target.
func judged(t *testing.T, run results.Run, aim target) verdict {
	t.Helper()
	verdicts, err := judge(run, []target{aim})
	require.NoError(t, err)
	return verdicts[0]
}
