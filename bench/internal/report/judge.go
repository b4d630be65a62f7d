package report

import (
	"fmt"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// target is a bound that a run should reach. The function targets lists them.
type target struct {
	Key    string // in missed.md
	What   string
	Of     cell
	Over   cell // Of is divided by it; the zero value: Of itself is judged
	AtMost bool // Bound is an upper bound on Of/Over; else a lower bound on a ratio that is above 1 if Of is better than Over
	Bound  float64
	Unit   unit
}

// verdict is a target with what was measured.
type verdict struct {
	target
	measured

	Reached bool
}

// judge computes each target. It fails if the results have no values for one.
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

// found is the measured value as text, with enough digits to show whether the bound is reached.
func (v verdict) found() string {
	for digits := 2; digits < 9; digits++ {
		text, shown := v.Unit.digits(v.Median, digits)
		if v.reached(shown) == v.Reached {
			return text
		}
	}
	return v.Unit.text(v.Median)
}

// base names the subject that Of is divided by; "" if it is the same subject, which What explains.
func (t target) base() string {
	if t.Over.Subject == "" || t.Over.Subject == t.Of.Subject {
		return ""
	}
	return "`" + t.Over.Subject + "`"
}
