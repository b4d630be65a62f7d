package report

import (
	"strings"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// engineTargets are what was promised of a cluster whose engine is Redis.
func engineTargets() []target {
	return []target{
		{
			Key: "redis-burst", What: "notifications a second on one stream, over Redis", Bound: 100_000,
			Of: cell{Scenario: "redis-burst-1", Subject: "rejoin-redis-sse", Metric: "events/s"},
		},
		{
			Key: "redis-quick", What: "engine calls of a tools/call answered with JSON by the owner", AtMost: true, Bound: 0.01,
			Of: cell{Scenario: "redis-calls", Subject: "rejoin-redis-json", Metric: "trips"},
		},
		{
			Key: "redis-idle", What: "memory of an idle session in Redis", AtMost: true, Bound: 1500, Unit: inBytes,
			Of: cell{Scenario: "redis-memory", Subject: "rejoin-redis-sse", Metric: "session"},
		},
		{
			Key: "redis-adoption", What: "adoption of a session whose owner is known to be dead, p99 in ms", AtMost: true, Bound: 20,
			Of: cell{Scenario: "redis-adoption", Subject: "rejoin-redis-sse", Metric: "p99"},
		},
	}
}

const engineText = "\n## A cluster over Redis\n" +
	"`make bench-engine` writes this part from [engine.json](performance/engine.json), the results of a run of its own, made in the same way. Each round\n" +
	"has a new `redis-server`, which keeps nothing on disk. [redis.md](redis.md) says how to run one.\n\n"

// engineSection is the part of the document about the run with an engine; "" if there was none.
func engineSection(run results.Run, texts map[string]string) (string, error) {
	if len(run.Scenarios) == 0 {
		return "", nil
	}
	verdicts, err := judge(run, engineTargets())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(engineText + machine(run) + "\n" + targetsTable(verdicts) + missed(verdicts, texts))
	for _, s := range run.Scenarios {
		text, err := scenarioTable(s)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
