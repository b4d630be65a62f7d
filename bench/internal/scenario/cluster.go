package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

const clusterText = "Rejoin's own handler without and with `Config.Cluster`. The engine of the cluster is in the server's process, so its work is part of the costs. " +
	"In subjects with a number the server uses it as one across the network: each call of the engine takes at least so many microseconds, and the server must not " +
	"wait for it under a lock or in the goroutine that writes. `engine calls` counts all calls of the directory and the store but those for the lease. "

// alone is the subject that a subject in a cluster is compared with: the same without a cluster.
func alone(name string) string {
	return "rejoin-" + name[strings.LastIndexByte(name, '-')+1:]
}

func engineCalls(unit string) results.Metric {
	return results.Metric{Key: "trips", Title: "engine calls/" + unit, Less: true, Plain: true}
}

// clusters measures what a cluster costs.
func clusters() []Scenario {
	all := []Scenario{{
		ID:      "cluster-calls",
		Title:   "tools/call in a cluster, 16 clients",
		Text:    clusterText + "The load is that of the calls without a cluster. The server has one CPU (GOMAXPROCS=1), the load another.",
		Metrics: slices.Concat(callMetrics, []results.Metric{engineCalls("call")}),
		Subjects: []string{
			"rejoin-json", "rejoin-cluster-json", "rejoin-cluster-0-json", "rejoin-cluster-500-json",
			"rejoin-sse", "rejoin-cluster-sse", "rejoin-cluster-0-sse", "rejoin-cluster-500-sse",
		},
		Base:   alone,
		Rounds: 5,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			return withServer(ctx, proc.Spec{Subject: name, CPU: env.Server}, env.Client, func(t target) callsJob {
				job := newCalls(env, name, t)
				job.Engine = true
				return job
			})
		},
	}}
	for _, streams := range []int{1, 8} {
		all = append(all, Scenario{
			ID:       fmt.Sprintf("cluster-burst-%d", streams),
			Title:    fmt.Sprintf("10,000 progress notifications in a cluster, %s", plural(streams, "stream")),
			Text:     clusterText + "The load is that of the notifications without a cluster. `appends` are calls of the engine that record notifications, perhaps many at once.",
			Metrics:  slices.Concat(burstMetrics, []results.Metric{engineCalls("event"), {Key: "appends", Title: "appends/event", Less: true, Plain: true}}),
			Subjects: []string{"rejoin-sse", "rejoin-cluster-sse", "rejoin-cluster-0-sse", "rejoin-cluster-500-sse"},
			Base:     alone,
			Rounds:   3,
			Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
				return withServer(ctx, proc.Spec{Subject: name, StoreBytes: manyBytes, CPU: env.Server}, env.Client, func(t target) burstJob {
					return burstJob{target: t, Streams: streams, Events: Pick(env, 10_000, 2_000), Repeat: Pick(env, max(1, 4/streams), 1), Engine: true}
				})
			},
		})
	}
	return all
}
