// Package scenario has what is measured, and how the figures of its rounds become a table.
package scenario

import (
	"context"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// Scenario is one thing to measure: a table in the end.
type Scenario struct {
	ID, Title, Text string
	Metrics         []results.Metric
	Subjects        []string // rows, in order; also the bases that their ratios refer to
	Rounds          int
	// Base is the subject that ratios refer to; nil: the subject's own. No ratio if that is not among Subjects.
	Base func(subject string) string
	// Run measures one subject in one round: starts its server in a fresh process, runs the load, checks every answer, stops the server.
	// The values are by the metric's key; one that is absent is absent in the table.
	Run func(ctx context.Context, env *Env, subject string) (map[string]float64, error)
}

// Env is what a scenario is told about the run.
type Env struct {
	Quick  bool                             // tiny counts and times: only to see that all works
	Server int                              // the CPU of pinned servers
	Client int                              // the CPU of their load
	Log    func(format string, args ...any) // progress
}

// Pick is the value for a whole run, or the one for a quick run.
func Pick[T any](env *Env, whole, quick T) T {
	if env.Quick {
		return quick
	}
	return whole
}

// registry has a function for each file of scenarios, in the order of the tables.
var registry = []func() []Scenario{calls, handlers, sessions, bursts, replays, memories, parkings, appends}

// All are the scenarios in the order of the tables.
func All() []Scenario {
	var all []Scenario
	for _, f := range registry {
		all = append(all, f()...)
	}
	return all
}
