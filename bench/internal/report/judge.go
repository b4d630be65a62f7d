package report

import (
	"fmt"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// target is what a run has to reach. Data: see targets.
type target struct {
	Key    string // in missed.md
	What   string
	Of     cell
	Over   cell // the zero value: Of is taken as it is
	AtMost bool // the bound is the most that is allowed, and costs are divided as they are. Else it is the least, and above 1 Of is better than Over
	Bound  float64
	Unit   unit
}

// verdict is a target beside what was measured.
type verdict struct {
	target
	measured

	Reached bool
}

// judge measures each target, or says which of them the results say nothing of.
func judge(run results.Run, list []target) ([]verdict, error) {
	out := make([]verdict, 0, len(list))
	for _, t := range list {
		var values []float64
		var err error
		switch {
		case t.Over == cell{}:
			values, err = rounds(run, t.Of)
		case t.AtMost:
			values, err = quotients(run, t.Of, t.Over)
		default:
			values, err = gains(run, t.Of, t.Over)
		}
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", t.Key, err)
		}
		v := verdict{target: t, measured: of(values)}
		v.Reached = t.reached(v.Median)
		out = append(out, v)
	}
	return out, nil
}

func (t target) reached(value float64) bool {
	if t.AtMost {
		return value <= t.Bound
	}
	return value >= t.Bound
}

// wanted is the bound as text.
func (t target) wanted() string {
	if t.AtMost {
		return "≤ " + t.Unit.text(t.Bound)
	}
	return "≥ " + t.Unit.text(t.Bound)
}

// found is what was measured as text: with as many digits as it takes to see whether the bound is reached.
func (v verdict) found() string {
	for digits := 2; digits < 9; digits++ {
		text, shown := v.Unit.digits(v.Median, digits)
		if v.reached(shown) == v.Reached {
			return text
		}
	}
	return v.Unit.text(v.Median)
}

// base is the subject that was divided by; "" if it is the same, and What says the rest.
func (t target) base() string {
	if t.Over.Subject == "" || t.Over.Subject == t.Of.Subject {
		return ""
	}
	return "`" + t.Over.Subject + "`"
}
