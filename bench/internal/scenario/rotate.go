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

// Measure runs the rounds of a scenario: in each, every subject that want wants, and their bases, once. The machine's moods change slowly,
// so ratios are within a round, and who is compared with each other runs one after the other (see ordered). A failure ends neither the round nor the scenario; what failed
// is missing in the table. It ends early with ctx.
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
			env.Log("%s, round %d of %d: %s: %s (%.1f s)", s.ID, i+1, rounds, name, brief(s.Metrics, got), time.Since(began).Seconds())
		}
		done = append(done, values)
	}
	table := results.Scenario{ID: s.ID, Title: s.Title, Text: s.Text, Metrics: s.Metrics}
	for _, name := range names {
		table.Rows = append(table.Rows, row(s.Metrics, done, name, s.base(name)))
	}
	return table, errors.Join(failures...)
}

// base is the subject that ratios of the named one refer to.
func (s *Scenario) base(name string) string {
	if s.Base != nil {
		return s.Base(name)
	}
	found, _ := subject.Find(name)
	return found.Base
}

// chosen are the subjects that are wanted, and what they are compared with, in the order of the table.
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

// ordered is the order of a round. Subjects stay in groups: a base, or several in a row, and those after it in the table, which are compared
// with it and with each other. What is in a group is measured in the same few seconds; each round begins with another group.
func (s *Scenario) ordered(names []string, by int) []string {
	var groups [][]string
	leads := false // the name before is a base
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

// known finds values that no column has, and such that are no number.
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

// brief is the first value, for the progress.
func brief(metrics []results.Metric, values map[string]float64) string {
	for _, m := range metrics {
		if v, ok := values[m.Key]; ok {
			return fmt.Sprintf("%.4g %s", v, m.Title)
		}
	}
	return "nothing"
}
