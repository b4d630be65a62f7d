package report

import (
	"fmt"
	"slices"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// cell names one value of a run: a metric of a subject in a scenario. Plus, if not empty, names a metric that is added to it.
type cell struct {
	Scenario, Subject, Metric string
	Plus                      string
}

func (c cell) String() string {
	name := fmt.Sprintf("scenario %q, subject %q, metric %q", c.Scenario, c.Subject, c.Metric)
	if c.Plus != "" {
		name += fmt.Sprintf(" and %q", c.Plus)
	}
	return name
}

// measured is the result of several rounds: the median, the least and the greatest value.
type measured struct {
	Median, Least, Most float64
}

// of summarizes rounds.
func of(rounds []float64) measured {
	return measured{Median: median(rounds), Least: slices.Min(rounds), Most: slices.Max(rounds)}
}

// median is the median of a list that is not empty.
func median(rounds []float64) float64 {
	sorted := slices.Sorted(slices.Values(rounds))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// find returns a scenario of a run.
func find(run results.Run, id string) (results.Scenario, error) {
	for _, s := range run.Scenarios {
		if s.ID == id {
			return s, nil
		}
	}
	return results.Scenario{}, fmt.Errorf("the results have no scenario %q", id)
}

// row returns a subject's row of a scenario.
func row(s results.Scenario, subject string) (results.Row, bool) {
	for _, r := range s.Rows {
		if r.Subject == subject {
			return r, true
		}
	}
	return results.Row{}, false
}

// metric returns a column of a scenario.
func metric(s results.Scenario, key string) (results.Metric, bool) {
	for _, m := range s.Metrics {
		if m.Key == key {
			return m, true
		}
	}
	return results.Metric{}, false
}

// rounds returns the values of a cell, one for each round.
func rounds(run results.Run, c cell) ([]float64, error) {
	s, err := find(run, c.Scenario)
	if err != nil {
		return nil, err
	}
	r, ok := row(s, c.Subject)
	if !ok {
		return nil, fmt.Errorf("the results have no row for %v", c)
	}
	values := slices.Clone(r.Values[c.Metric].Rounds)
	if len(values) == 0 {
		return nil, fmt.Errorf("the results have no value for %v", c)
	}
	if c.Plus != "" {
		more := r.Values[c.Plus].Rounds
		if len(more) != len(values) {
			return nil, fmt.Errorf("the results have %d and %d rounds for %v", len(values), len(more), c)
		}
		for i := range values {
			values[i] += more[i]
		}
	}
	return values, nil
}

// quotients divides a by b. Within a scenario it divides round by round, because a disturbance of the machine affects both values of a round.
// For two scenarios it divides the medians.
func quotients(run results.Run, a, b cell) ([]float64, error) {
	over, err := rounds(run, b)
	if err != nil {
		return nil, err
	}
	values, err := rounds(run, a)
	if err != nil {
		return nil, err
	}
	if a.Scenario != b.Scenario {
		values, over = []float64{median(values)}, []float64{median(over)}
	}
	if len(values) != len(over) {
		return nil, fmt.Errorf("%d rounds of %v, but %d of %v", len(values), a, len(over), b)
	}
	for i := range values {
		if over[i] == 0 {
			return nil, fmt.Errorf("round %d of %v is 0", i+1, b)
		}
		values[i] /= over[i]
	}
	return values, nil
}

// gains are the quotients of a and b, or of b and a if less is better: above 1, a is better.
func gains(run results.Run, a, b cell) ([]float64, error) {
	s, err := find(run, a.Scenario)
	if err != nil {
		return nil, err
	}
	if m, ok := metric(s, a.Metric); ok && m.Less {
		a, b = b, a
	}
	return quotients(run, a, b)
}
