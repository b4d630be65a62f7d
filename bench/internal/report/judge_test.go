package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// A target at its bound is reached, and one just beyond it is missed.
func TestTargetsAreJudgedAtTheirBounds(t *testing.T) {
	run := small(map[string][2][]float64{
		"a": {{1150}, {30}}, "b": {{1149}, {31}}, "bare": {{1000}, {60}},
	})
	for _, c := range []struct {
		name    string
		aim     target
		reached bool
		found   string
	}{
		{"at the least", target{Of: at("a", "gain"), Over: at("bare", "gain"), Bound: 1.15}, true, "1.15"},
		{"below the least", target{Of: at("b", "gain"), Over: at("bare", "gain"), Bound: 1.15}, false, "1.149"},
		{"at the least, of a cost", target{Of: at("a", "cost"), Over: at("bare", "cost"), Bound: 2}, true, "2"},
		{"below the least, of a cost", target{Of: at("b", "cost"), Over: at("bare", "cost"), Bound: 2}, false, "1.94"},
		{"at the most", target{Of: at("a", "cost"), AtMost: true, Bound: 30}, true, "30"},
		{"above the most", target{Of: at("b", "cost"), AtMost: true, Bound: 30}, false, "31"},
		{"at the most, beside another", target{Of: at("bare", "cost"), Over: at("a", "cost"), AtMost: true, Bound: 2}, true, "2"},
		{"above the most, beside another", target{Of: at("bare", "cost"), Over: at("a", "cost"), AtMost: true, Bound: 1.99}, false, "2"},
		{"in bytes", target{Of: at("a", "gain"), AtMost: true, Bound: 1149, Unit: inBytes}, false, "1.15 KB"},
		{"a sum", target{Of: cell{Scenario: "s", Subject: "a", Metric: "gain", Plus: "cost"}, AtMost: true, Bound: 1180}, true, "1180"},
	} {
		v := judged(t, run, c.aim)
		require.Equal(t, c.reached, v.Reached, c.name)
		require.Equal(t, c.found, v.found(), c.name)
	}
}

// Rounds are divided round by round, and then the median is taken: not the other way round.
func TestQuotientsAreOfRounds(t *testing.T) {
	run := small(map[string][2][]float64{"a": {{10, 300, 40}}, "bare": {{10, 100, 20}}})
	v := judged(t, run, target{Of: at("a", "gain"), Over: at("bare", "gain")})
	require.Equal(t, measured{Median: 2, Least: 1, Most: 3}, v.measured)

	other := small(map[string][2][]float64{"bare": {{5, 10}}})
	other.Scenarios[0].ID = "other"
	run.Scenarios = append(run.Scenarios, other.Scenarios...)
	v = judged(t, run, target{Of: at("a", "gain"), Over: cell{Scenario: "other", Subject: "bare", Metric: "gain"}})
	require.InDelta(t, 40/7.5, v.Median, 1e-9, "of two scenarios the medians are divided")
}

// The error names the value that is missing.
func TestATargetThatWasNotMeasuredIsAnError(t *testing.T) {
	run := small(map[string][2][]float64{"a": {{1, 2}, {0, 1}}, "bare": {{1}, {1, 1}}})
	for want, aim := range map[string]target{
		`the results have no scenario "r"`:                                                                           {Of: cell{Scenario: "r", Subject: "a", Metric: "gain"}},
		`the results have no row for scenario "s", subject "b", metric "gain"`:                                       {Of: at("b", "gain")},
		`the results have no value for scenario "s", subject "a", metric "loss"`:                                     {Of: at("a", "loss")},
		`the results have 2 and 0 rounds for scenario "s", subject "a", metric "gain" and "x"`:                       {Of: cell{Scenario: "s", Subject: "a", Metric: "gain", Plus: "x"}},
		`2 rounds of scenario "s", subject "a", metric "gain", but 1 of scenario "s", subject "bare", metric "gain"`: {Of: at("a", "gain"), Over: at("bare", "gain")},
		`round 1 of scenario "s", subject "a", metric "cost" is 0`:                                                   {Of: at("bare", "cost"), Over: at("a", "cost"), AtMost: true},
	} {
		aim.Key = "k"
		_, err := judge(run, []target{aim})
		require.EqualError(t, err, "target k: "+want)
	}
}

// The keys are those of missed.md, and the names those of what is measured.
func TestTheTargetsAreAboutWhatIsMeasured(t *testing.T) {
	run, engine := syntheticRun(), syntheticEngine()
	verdicts, err := judge(run, targets())
	require.NoError(t, err)
	require.Len(t, verdicts, 36)
	more, err := judge(engine, engineTargets())
	require.NoError(t, err)
	require.Len(t, more, 4)
	verdicts = append(verdicts, more...)
	keys := map[string]bool{}
	for _, v := range verdicts {
		require.False(t, keys[v.Key], "two targets have the key %s", v.Key)
		require.NotEmpty(t, v.What, v.Key)
		require.True(t, v.Bound > 0 || v.AtMost, v.Key)
		keys[v.Key] = true
	}
	_, err = documents(run, engine)
	require.NoError(t, err)
	_, err = readme(run)
	require.NoError(t, err)
}

// A peer's value is listed if it is better than that of rejoin's own handler or of the bridge, whether more or less is better.
func TestWhatPeersAreBetterAtIsListed(t *testing.T) {
	run := small(map[string][2][]float64{
		"bare": {{99}, {1}}, "null": {{999}, {0}},
		"gosdk-sse-store-raw":       {{12, 30}, {5, 7}},
		"rejoin-sse":                {{10, 25}, {4, 6}},
		"rejoin-gosdk-sse-raw":      {{13, 31}, {6, 8}},
		"mcpgo-json":                {{10}, {0}},
		"rejoin-json":               {{10}, {2}},
		"rejoin-mcpgo-json":         {{9.95}, {0}},
		"gosdk-modern":              {{10}, {1}},
		"rejoin-modern":             {{20}, {2}},
		"rejoin-gosdk-modern-tasks": {{5}, {1}},
	})
	found := map[string]float64{}
	for _, w := range advantages(run) {
		found[w.Peer+" "+w.Metric.Key+" "+w.Beside] = w.Gain
	}
	require.InDeltaMapValues(t, map[string]float64{
		"gosdk-sse-store-raw gain rejoin-sse":           1.2,
		"gosdk-sse-store-raw cost rejoin-gosdk-sse-raw": (6.0/5 + 8.0/7) / 2,
		"mcpgo-json cost rejoin-json":                   0,
		"gosdk-modern cost rejoin-modern":               2,
		"gosdk-modern gain rejoin-gosdk-modern-tasks":   2,
	}, found, 1e-9)

	theirs, _ := row(run.Scenarios[0], "gosdk-sse-store-raw")
	ours, _ := row(run.Scenarios[0], "rejoin-sse")
	_, better := compare(run.Scenarios[0], results.Metric{Key: "gain"}, theirs, ours)
	require.True(t, better)
	_, better = compare(run.Scenarios[0], results.Metric{Key: "gain", Plain: true}, theirs, ours)
	require.False(t, better, "what has no ratio and is no cost is no merit")
	require.Contains(t, peersAreBetter(run), "| T | gain | `gosdk-sse-store-raw` | 21 | `rejoin-sse` | 17.5 | 1.20 |\n")
	require.Contains(t, peersAreBetter(results.Run{}), "This run has none.")
}
