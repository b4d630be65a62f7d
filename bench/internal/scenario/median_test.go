package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

func TestMedian(t *testing.T) {
	require.InDelta(t, 0, median(nil), 0)
	require.InDelta(t, 3, median([]float64{3}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 3, 2}), 0)
	require.InDelta(t, 5, median([]float64{100, 5, 1}), 0)
}

// The second round was slow for all subjects. Ratios of medians would compare values of different rounds.
func TestRatiosAreWithinARound(t *testing.T) {
	metrics := []results.Metric{{Key: "rate"}, {Key: "cost", Less: true}, {Key: "plain", Plain: true}, {Key: "lost", Less: true}, {Key: "absent"}}
	rounds := []round{
		{"base": {"rate": 100, "cost": 1, "plain": 1, "lost": 0}, "own": {"rate": 200, "cost": 2, "plain": 5, "lost": 0}},
		{"base": {"rate": 10, "cost": 10, "plain": 1, "lost": 0}, "own": {"rate": 30, "cost": 5, "plain": 6, "lost": 3}},
		{"base": {"rate": 100, "cost": 1, "plain": 1, "lost": 0}, "own": {"rate": 50, "cost": 4, "plain": 7, "lost": 0}},
	}
	require.Equal(t, results.Row{Subject: "own", Base: "base", Values: map[string]results.Value{
		"rate":  {Median: 50, Rounds: []float64{200, 30, 50}, Ratio: 2, Ratios: []float64{2, 3, 0.5}},
		"cost":  {Median: 4, Rounds: []float64{2, 5, 4}, Ratio: 0.5, Ratios: []float64{0.5, 2, 0.25}},
		"plain": {Median: 6, Rounds: []float64{5, 6, 7}},
		"lost":  {Median: 0, Rounds: []float64{0, 3, 0}}, // no ratios: 0 cannot be divided by 0
	}}, row(metrics, rounds, "own", "base"))
}

func TestARoundThatFailedIsLeftOut(t *testing.T) {
	metrics := []results.Metric{{Key: "rate"}}
	rounds := []round{{"own": {"rate": 3}}, {"base": {"rate": 1}}, {"base": {"rate": 2}, "own": {"rate": 4}}}
	require.Equal(t, map[string]results.Value{"rate": {Median: 3.5, Rounds: []float64{3, 4}, Ratio: 2, Ratios: []float64{2}}},
		row(metrics, rounds, "own", "base").Values)
	require.Empty(t, row(metrics, rounds, "other", "base").Values)
}
