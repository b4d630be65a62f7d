package scenario

import (
	"context"
)

// modernCalls measures plain tool calls of the modern era.
func modernCalls() []Scenario {
	return []Scenario{{
		ID:    "calls-modern",
		Title: "tools/call, version 2026-07-28, 16 clients",
		Text: "As the calls of older versions: 16 clients with a connection each call the tool `echo`, after 0.15 s of warm-up for 0.5 s. There are no " +
			"sessions. Each request repeats its method and its tool in the head, and has its client's capabilities in `_meta`. In subjects with " +
			"`-tasks` these contain the tasks extension; the calls are too quick to become tasks, and each must be answered with its text. The server " +
			"has one CPU (GOMAXPROCS=1), the load another.",
		Metrics: callMetrics,
		Subjects: []string{
			"bare-modern", "rejoin-modern", "rejoin-modern-tasks",
			"gosdk-modern", "rejoin-gosdk-modern", "rejoin-gosdk-modern-tasks",
			"mcpgo-modern", "rejoin-mcpgo-modern", "rejoin-mcpgo-modern-tasks",
		},
		Rounds: 5,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			return runCalls(ctx, env, name, env.Server, env.Client)
		},
	}}
}
