package scenario

import (
	"slices"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// median is the median of values, or 0 if there are none. It sorts them.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// round has the values of each subject in one round.
type round map[string]map[string]float64

// row summarizes the rounds for one subject.
func row(metrics []results.Metric, rounds []round, subject, base string) results.Row {
	r := results.Row{Subject: subject, Base: base, Values: map[string]results.Value{}}
	for _, m := range metrics {
		var all []float64
		var v results.Value
		for _, round := range rounds {
			own, ok := round[subject][m.Key]
			if !ok {
				continue
			}
			all = append(all, own)
			theirs, ok := round[base][m.Key]
			if !ok || m.Plain || own <= 0 || theirs <= 0 {
				continue
			}
			if m.Less {
				own, theirs = theirs, own
			}
			v.Ratios = append(v.Ratios, own/theirs)
		}
		if len(all) == 0 {
			continue
		}
		v.Rounds = slices.Clone(all)
		v.Median = median(all)
		v.Ratio = median(slices.Clone(v.Ratios))
		r.Values[m.Key] = v
	}
	return r
}
