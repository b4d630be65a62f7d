package scenario

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

const forwardText = "In the forwarding subjects a server that has no session gets all requests, and sends each over loopback to the server that " +
	"owns the session. Both are in one process, so the costs are the sum of both. The others are the same without the way in between. "

// unforwarded is the subject that a subject is compared with: the same, but requests reach the owner of their session at once.
func unforwarded(name string) string { return strings.Replace(name, "-forwarded-", "-cluster-", 1) }

// forwards measures what it costs that a request reaches another process than the owner of its session.
func forwards() []Scenario {
	return []Scenario{
		{
			ID:    "forwarded-calls",
			Title: "tools/call at another process than the owner, 16 clients",
			Text: forwardText + "The load is that of the calls without a cluster; after it, one client calls alone for 0.3 s. `dials` are connections between " +
				"the two servers. All servers have one CPU (GOMAXPROCS=1), the load another.",
			Metrics: slices.Concat(callMetrics, []results.Metric{
				{Key: "alone", Title: "p50 µs, one client", Less: true}, engineCalls("call"), {Key: "dials", Title: "dials/call", Less: true, Plain: true},
			}),
			Subjects: []string{"rejoin-cluster-json", "rejoin-forwarded-json", "rejoin-cluster-sse", "rejoin-forwarded-sse"},
			Base:     unforwarded,
			Rounds:   5,
			Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
				return withServer(ctx, proc.Spec{Subject: name, CPU: env.Server}, env.Client, func(t target) callsJob {
					job := newCalls(env, name, t)
					job.Engine, job.Dials, job.Alone = true, true, Pick(env, 300*time.Millisecond, 10*time.Millisecond)
					return job
				})
			},
		},
		{
			ID:    "forwarded-get",
			Title: "2,000 hanging GETs at another process than the owner",
			Text: forwardText + "Each session has one connected stream, over a connection of its own. The cost of the sessions is not included. What a forwarded " +
				"stream takes above a direct one is the part of the process in between. " + collected,
			Metrics:  held,
			Subjects: []string{"rejoin-cluster-sse", "rejoin-forwarded-sse"},
			Base:     unforwarded,
			Rounds:   3,
			Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
				return withServer(ctx, proc.Spec{Subject: name, StoreBytes: manyBytes, CPU: proc.AnyCPU}, proc.AnyCPU, func(t target) memoryJob {
					return memoryJob{target: t, Kind: "get", Units: Pick(env, 2000, 50)}
				})
			},
		},
	}
}
