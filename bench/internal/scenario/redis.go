package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

const redisText = "Rejoin's own handler alone, in a cluster whose engine is in the server's memory, and in one over Redis, which runs on the same " +
	"machine and may use both CPUs. `engine calls` are operations of the engine, each one script: Redis counts them itself, those " +
	"for the lease too. `Redis CPU` is that of its process. "

var redisCPU = results.Metric{Key: "redis cpu", Title: "Redis CPU µs", Less: true, Plain: true}

func redisCosts(unit string) []results.Metric {
	cpu := redisCPU
	cpu.Title += "/" + unit
	return []results.Metric{engineCalls(unit), cpu}
}

// undivided is the subject that a forwarding one is compared with.
func undivided(name string) string { return strings.Replace(name, "-forwarded-", "-", 1) }

// Redis returns the scenarios in which the engine of the cluster is a redis-server. They need it installed.
func Redis() []Scenario {
	all := []Scenario{{
		ID:      "redis-calls",
		Title:   "tools/call in a cluster over Redis, 16 clients",
		Text:    redisText + callsText + " The server has one CPU (GOMAXPROCS=1), the load another.",
		Metrics: slices.Concat(callMetrics, redisCosts("call")),
		Subjects: []string{
			"rejoin-json", "rejoin-cluster-json", "rejoin-redis-json",
			"rejoin-sse", "rejoin-cluster-sse", "rejoin-redis-sse",
		},
		Base:   alone,
		Rounds: 5,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			return withRedisServer(ctx, proc.Spec{Subject: name, CPU: env.Server}, env.Client, func(t target) callsJob { return newCalls(env, name, t) })
		},
	}, {
		ID:    "redis-forwarded",
		Title: "tools/call at another process than the owner, over Redis, 16 clients",
		Text: forwardText + "The load is that of the calls over Redis; after it, one client calls alone for 0.3 s. All servers have one CPU " +
			"(GOMAXPROCS=1), the load another.",
		Metrics:  slices.Concat(callMetrics, []results.Metric{{Key: "alone", Title: "p50 µs, one client", Less: true}}, redisCosts("call")),
		Subjects: []string{"rejoin-redis-json", "rejoin-redis-forwarded-json", "rejoin-redis-sse", "rejoin-redis-forwarded-sse"},
		Base:     undivided,
		Rounds:   3,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			return withRedisServer(ctx, proc.Spec{Subject: name, CPU: env.Server}, env.Client, func(t target) callsJob {
				job := newCalls(env, name, t)
				job.Alone = Pick(env, 300*time.Millisecond, 10*time.Millisecond)
				return job
			})
		},
	}}
	for _, streams := range []int{1, 8} {
		all = append(all, Scenario{
			ID:       fmt.Sprintf("redis-burst-%d", streams),
			Title:    fmt.Sprintf("10,000 progress notifications over Redis, %s", plural(streams, "stream")),
			Text:     redisText + "The load is that of the notifications without a cluster. Each notification is delivered after the engine has it.",
			Metrics:  slices.Concat(burstMetrics, redisCosts("event")),
			Subjects: []string{"rejoin-sse", "rejoin-cluster-sse", "rejoin-redis-sse"},
			Base:     alone,
			Rounds:   5,
			Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
				return withRedisServer(ctx, proc.Spec{Subject: name, StoreBytes: manyBytes, CPU: env.Server}, env.Client, func(t target) burstJob {
					return burstJob{target: t, Streams: streams, Events: Pick(env, 10_000, 2_000), Repeat: Pick(env, max(1, 4/streams), 1)}
				})
			},
		})
	}
	return append(all, redisReplays(), adoptions(), redisMemory())
}
