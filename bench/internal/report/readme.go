package report

import (
	"fmt"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// readme is the README's section: two plots, and what a user gains.
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
## What it costs, and saves
A server of go-sdk answers %s times as many calls behind rejoin as behind its own handler (with SSE and an event store %s times), one of
mcp-go %s times as many (%s times). A call whose client was let go holds %s of memory, of a go-sdk server %s, where one whose client
hangs on holds %s behind go-sdk's own handler and %s behind mcp-go's.

![tools/call: calls a second, beside a handler written by hand](docs/performance/calls.svg)

![Memory of a call that waits](docs/performance/waiting.svg)

Measured on %d cores over loopback; [docs/performance.md](docs/performance.md) has the targets, reached and missed, every figure, what the peers are
better at, and how it is measured. `+"`make bench`"+` measures again.

`, ratio(gain["rejoin-gosdk-json"]), ratio(gain["rejoin-gosdk-sse"]), ratio(gain["rejoin-mcpgo-json"]), ratio(gain["rejoin-mcpgo-sse"]),
		of(parkedCall, "rejoin-sse"), of(parkedCall, "rejoin-gosdk-sse"), of(hangingPost, "gosdk-sse-store"), of(hangingPost, "mcpgo-sse-store"),
		run.Machine.Cores), nil
}
