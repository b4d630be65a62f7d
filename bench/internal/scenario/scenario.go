// Package scenario has the scenarios that are measured, and makes a table of the values of their rounds.
package scenario

import (
	"context"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// Scenario is one thing to measure. Its result is a table.
type Scenario struct {
	ID, Title, Text string
	Metrics         []results.Metric
	Subjects        []string // rows, in order; also the bases that their ratios refer to
	Rounds          int
	// Base is the subject that ratios refer to; nil: the subject's own base. There are no ratios if it is not among Subjects.
	Base func(subject string) string
	// Run measures one subject in one round: it starts its server in a new process, runs the load, checks every answer, and stops the
	// server. It returns the values by the metric's key; those that are absent are absent in the table.
	Run func(ctx context.Context, env *Env, subject string) (map[string]float64, error)
}

// Env has the parameters of a run.
type Env struct {
	Quick  bool                             // small counts and times, only to see that everything works
	Server int                              // the CPU of pinned servers
	Client int                              // the CPU of their load
	Log    func(format string, args ...any) // reports progress
}

// Pick returns whole, or quick in a quick run.
func Pick[T any](env *Env, whole, quick T) T {
	if env.Quick {
		return quick
	}
	return whole
}

// registry has the functions that list the scenarios, in the order of the tables.
var registry = []func() []Scenario{calls, modernCalls, handlers, sessions, bursts, replays, memories, parkings, taskPolls, clusters, forwards, appends}

// All returns the scenarios in the order of the tables.
func All() []Scenario {
	var all []Scenario
	for _, f := range registry {
		all = append(all, f()...)
	}
	return all
}
