package report

import (
	"fmt"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// readme is the README's section: two figures and a table of ratios.
func readme(run results.Run) (string, error) {
	gain := map[string]float64{}
	for bridged, own := range map[string]string{
		"rejoin-gosdk-json": "gosdk-json", "rejoin-gosdk-sse": "gosdk-sse-store", "rejoin-mcpgo-json": "mcpgo-json", "rejoin-mcpgo-sse": "mcpgo-sse-store",
	} {
		values, err := gains(run, cell{Scenario: callsPinned, Subject: bridged, Metric: "calls/s"}, cell{Scenario: callsPinned, Subject: own, Metric: "calls/s"})
		if err != nil {
			return "", err
		}
		gain[bridged] = median(values)
	}
	waits := map[cell]float64{}
	for _, c := range []cell{
		{Scenario: parkedCall, Subject: "rejoin-sse", Metric: "rss"}, {Scenario: parkedCall, Subject: "rejoin-gosdk-sse", Metric: "rss"},
		{Scenario: hangingPost, Subject: "gosdk-sse-store", Metric: "rss"}, {Scenario: hangingPost, Subject: "mcpgo-sse-store", Metric: "rss"},
	} {
		values, err := rounds(run, c)
		if err != nil {
			return "", err
		}
		waits[cell{Scenario: c.Scenario, Subject: c.Subject}] = median(values)
	}
	of := func(scenario, subject string) string {
		return inBytes.text(waits[cell{Scenario: scenario, Subject: subject}])
	}
	return fmt.Sprintf(`
## Performance
A go-sdk server answers %s times as many calls behind rejoin as behind its own handler (%s times with SSE and an event store), and an
mcp-go server %s times as many (%s times). A call whose client is disconnected, to poll later, takes %s of memory, or %s in a
go-sdk server. A call whose client stays connected takes %s behind go-sdk's own handler and %s behind mcp-go's.

![tools/call: calls a second, compared with a handler written by hand](docs/performance/calls.svg)

![Memory of a call that waits](docs/performance/waiting.svg)

This was measured on %d cores over loopback. [docs/performance.md](docs/performance.md) has all figures, the targets that were reached and missed,
what the SDKs' own handlers are better at, and the method. `+"`make bench`"+` measures again.

`, ratio(gain["rejoin-gosdk-json"]), ratio(gain["rejoin-gosdk-sse"]), ratio(gain["rejoin-mcpgo-json"]), ratio(gain["rejoin-mcpgo-sse"]),
		of(parkedCall, "rejoin-sse"), of(parkedCall, "rejoin-gosdk-sse"), of(hangingPost, "gosdk-sse-store"), of(hangingPost, "mcpgo-sse-store"),
		run.Machine.Cores), nil
}
