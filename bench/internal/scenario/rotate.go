package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// Measure runs the rounds of a scenario. Each round measures every subject that want accepts, and its base, once. The speed of the machine
// changes slowly, so ratios are computed within a round, and subjects that are compared run one after the other (see ordered). A failure ends
// neither the round nor the scenario: its value is missing in the table, and the error is returned. Measure ends early with ctx.
func Measure(ctx context.Context, env *Env, s Scenario, want func(subject string) bool, rounds int) (results.Scenario, error) {
	names := chosen(s, want)
	done := make([]round, 0, rounds)
	var failures []error
	for i := range rounds {
		values := round{}
		for _, name := range s.ordered(names, i) {
			began := time.Now()
			got, err := s.Run(ctx, env, name)
			if ctx.Err() != nil {
				return results.Scenario{}, ctx.Err()
			}
			if err == nil {
				err = known(s.Metrics, got)
			}
			if err != nil {
				err = fmt.Errorf("%s, %s, round %d: %w", s.ID, name, i+1, err)
				env.Log("FAILED: %v", err)
				failures = append(failures, err)
				continue
			}
			values[name] = got
			env.Log("%s, round %d of %d: %s: %s (%.1f s)", s.ID, i+1, rounds, name, firstValue(s.Metrics, got), time.Since(began).Seconds())
		}
		done = append(done, values)
	}
	table := results.Scenario{ID: s.ID, Title: s.Title, Text: s.Text, Metrics: s.Metrics}
	for _, name := range names {
		table.Rows = append(table.Rows, row(s.Metrics, done, name, s.base(name)))
	}
	return table, errors.Join(failures...)
}

// base returns the subject to which the ratios of the named subject refer.
func (s *Scenario) base(name string) string {
	if s.Base != nil {
		return s.Base(name)
	}
	found, _ := subject.Find(name)
	return found.Base
}

// chosen returns the wanted subjects and their bases, in the order of the table.
func chosen(s Scenario, want func(string) bool) []string {
	needed := map[string]bool{}
	for _, name := range s.Subjects {
		if want(name) {
			needed[name] = true
			needed[s.base(name)] = true
		}
	}
	var names []string
	for _, name := range s.Subjects {
		if needed[name] {
			names = append(names, name)
		}
	}
	return names
}

// ordered returns the order of a round. A group is one or more bases and the subjects after them in the table, which are compared with each
// other. The subjects of a group run one after the other; each round begins with another group.
func (s *Scenario) ordered(names []string, by int) []string {
	var groups [][]string
	leads := false // the previous name is a base
	for _, name := range names {
		base := s.base(name) == name
		if len(groups) == 0 || base && !leads {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], name)
		leads = base
	}
	if len(groups) > 0 {
		by %= len(groups)
	}
	return slices.Concat(slices.Concat(groups, groups)[by:][:len(groups)]...)
}

// known returns an error if a value has no column or is not a number.
func known(metrics []results.Metric, values map[string]float64) error {
	if len(values) == 0 {
		return errors.New("it has no values")
	}
	for key, v := range values {
		if !slices.ContainsFunc(metrics, func(m results.Metric) bool { return m.Key == key }) {
			return fmt.Errorf("no column for %q", key)
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s is %v", key, v)
		}
	}
	return nil
}

// firstValue is the value of the first column, for the progress output.
func firstValue(metrics []results.Metric, values map[string]float64) string {
	for _, m := range metrics {
		if v, ok := values[m.Key]; ok {
			return fmt.Sprintf("%.4g %s", v, m.Title)
		}
	}
	return "nothing"
}
