package report

import (
	"slices"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// Scenarios that targets and plots refer to.
const (
	callsPinned = "calls-pinned"
	callsShared = "calls-shared"
	hangingPost = "memory-post"
	parkedCall  = "memory-parked"

	forwardedCall = "forwarded-calls"
	forwardedGet  = "forwarded-get"
)

// targets are what was promised before anything was measured.
func targets() []target {
	var all []target
	for _, where := range []struct{ id, name string }{{callsPinned, "pinned"}, {callsShared, "shared"}} {
		calls := func(key, what, subject, base string, bound float64) {
			all = append(all, target{
				Key: key + "-" + where.name, What: what + ", " + where.name, Bound: bound,
				Of: cell{Scenario: where.id, Subject: subject, Metric: "calls/s"}, Over: cell{Scenario: where.id, Subject: base, Metric: "calls/s"},
			})
		}
		calls("json", "tools/call answered with JSON, own handler", "rejoin-json", "bare-json", 1.15)
		calls("sse", "tools/call answered with SSE, primed and stored, own handler", "rejoin-sse", "bare-sse", 1)
		calls("gosdk-json", "go-sdk's server behind rejoin, JSON", "rejoin-gosdk-json", "gosdk-json", 1.5)
		calls("gosdk-sse", "go-sdk's server behind rejoin, SSE with a store", "rejoin-gosdk-sse", "gosdk-sse-store", 1.5)
		if where.id == callsShared {
			continue
		}
		calls("mcpgo-json", "mcp-go's server behind rejoin, JSON", "rejoin-mcpgo-json", "mcpgo-json", 1.2)
		calls("mcpgo-sse", "mcp-go's server behind rejoin, SSE with a store", "rejoin-mcpgo-sse", "mcpgo-sse-store", 1.8)
		calls("chi", "the adapter of chi compared with that of net/http", "rejoin-chi", "rejoin-json", 0.95)
		calls("echo", "the adapter of echo compared with that of net/http", "rejoin-echo", "rejoin-json", 0.93)
		calls("gin", "the adapter of gin compared with that of net/http", "rejoin-gin", "rejoin-json", 0.93)
	}
	return slices.Concat(all, floods(), costs(), forwarded())
}

// targetsOf are the targets that a run is judged by: without those on forwarding, if it was made before there was any.
func targetsOf(run results.Run) []target {
	return slices.DeleteFunc(targets(), func(t target) bool {
		if t.Of.Scenario != forwardedCall && t.Of.Scenario != forwardedGet {
			return false
		}
		_, err := find(run, t.Of.Scenario)
		return err != nil
	})
}

// floods are many events, and stores that are full of them.
func floods() []target {
	const own, bare = "rejoin-sse", "bare-sse-store"
	return []target{
		{
			Key: "burst", What: "10,000 notifications on each of 8 streams", Bound: 2.5,
			Of: cell{Scenario: "burst-8", Subject: own, Metric: "events/s"}, Over: cell{Scenario: "burst-8", Subject: bare, Metric: "events/s"},
		},
		{
			Key: "replay", What: "replay of 100,000 events", Bound: 0.9,
			Of: cell{Scenario: "replay-100000", Subject: own, Metric: "all"}, Over: cell{Scenario: "replay-100000", Subject: bare, Metric: "all"},
		},
		{
			Key: "replay-first", What: "time to the first event replayed: of 1,000,000 over that of 10,000", AtMost: true, Bound: 2,
			Of: cell{Scenario: "replay-first", Subject: own, Metric: "many"}, Over: cell{Scenario: "replay-first", Subject: own, Metric: "few"},
		},
		{
			Key: "append-1000", What: "time of an append at the store's limit: with 1,000 finished streams over that with none", AtMost: true, Bound: 1.5,
			Of: cell{Scenario: "append", Subject: "rejoin-eventstore", Metric: "some"}, Over: cell{Scenario: "append", Subject: "rejoin-eventstore", Metric: "none"},
		},
		{
			Key: "append-100000", What: "the same, with 100,000", AtMost: true, Bound: 1.5,
			Of: cell{Scenario: "append", Subject: "rejoin-eventstore", Metric: "many"}, Over: cell{Scenario: "append", Subject: "rejoin-eventstore", Metric: "none"},
		},
		{
			Key: "sessions", What: "initialize, initialized, DELETE a second: with 20,000 idle sessions over that with none", Bound: 0.9,
			Of: cell{Scenario: "sessions", Subject: "rejoin-json", Metric: "cycles/s idle"}, Over: cell{Scenario: "sessions", Subject: "rejoin-json", Metric: "cycles/s"},
		},
	}
}

// costs are bounds on what a thing costs, whatever it costs others.
func costs() []target {
	var all []target
	most := func(key, what, scenario, subject, metric string, bound float64, u unit) {
		all = append(all, target{Key: key, What: what, AtMost: true, Bound: bound, Unit: u, Of: cell{Scenario: scenario, Subject: subject, Metric: metric}})
	}
	most("allocs-json", "allocations of a tools/call, handler alone, JSON", "handler", "rejoin-json", "allocs", 30, plain)
	most("allocs-sse", "allocations of a tools/call, handler alone, SSE", "handler", "rejoin-sse", "allocs", 35, plain)
	most("parked", "resident memory of a parked call, own handler", parkedCall, "rejoin-sse", "rss", 4000, inBytes)
	most("parked-gosdk", "resident memory of a parked call, go-sdk's server", parkedCall, "rejoin-gosdk-sse", "rss", 12_000, inBytes)
	for _, s := range []struct {
		key, what, subject string
		bound              float64
	}{
		{"idle", "own handler", "rejoin-sse", 1000},
		{"idle-gosdk", "go-sdk's server", "rejoin-gosdk-sse", 8000},
		{"idle-mcpgo", "mcp-go's server", "rejoin-mcpgo-sse", 8000},
	} {
		most(s.key, "heap and stack of an idle session, "+s.what, "memory-idle", s.subject, "heap", s.bound, inBytes)
		all[len(all)-1].Of.Plus = "stack"
	}
	most("get", "resident memory of a hanging GET, own handler", "memory-get", "rejoin-sse", "rss", 28_000, inBytes)
	most("get-goroutines", "goroutines of a hanging GET, own handler", "memory-get", "rejoin-sse", "goroutines", 2, plain)
	most("parked-polls", "answers lost of 50,000 parked calls, each polled every 5 s", "parked-polls", "rejoin-sse", "lost", 0, plain)
	return all
}

// forwarded are bounds on what it costs that a request reaches another process than the owner of its session. The costs are those of both processes.
func forwarded() []target {
	var all []target
	for _, kind := range []struct{ id, name string }{{"json", "JSON"}, {"sse", "SSE"}} {
		subject, base := "rejoin-forwarded-"+kind.id, "rejoin-cluster-"+kind.id
		all = append(
			all,
			target{
				Key: "forwarded-cpu-" + kind.id, What: "CPU of a forwarded tools/call over that of a direct one, " + kind.name, AtMost: true, Bound: 3,
				Of: cell{Scenario: forwardedCall, Subject: subject, Metric: "cpu"}, Over: cell{Scenario: forwardedCall, Subject: base, Metric: "cpu"},
			},
			target{
				Key: "forwarded-p50-" + kind.id, What: "p50 in µs of a forwarded tools/call, one client, " + kind.name, AtMost: true, Bound: 300,
				Of: cell{Scenario: forwardedCall, Subject: subject, Metric: "alone"},
			},
			target{
				Key: "forwarded-dials-" + kind.id, What: "new connections for each forwarded tools/call, " + kind.name, AtMost: true, Bound: 0.01,
				Of: cell{Scenario: forwardedCall, Subject: subject, Metric: "dials"},
			},
		)
	}
	held := func(subject string) cell {
		return cell{Scenario: forwardedGet, Subject: subject, Metric: "heap", Plus: "stack"}
	}
	return append(all, target{
		Key: "forwarded-get", What: "heap and stack of a forwarded hanging GET over those of a direct one", AtMost: true, Bound: 3,
		Of: held("rejoin-forwarded-sse"), Over: held("rejoin-cluster-sse"),
	})
}
