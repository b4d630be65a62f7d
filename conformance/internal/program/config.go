package program

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// eras are the values of the flag -eras.
var eras = map[string]rejoin.Eras{
	"both":    rejoin.EraBoth,
	"default": rejoin.EraDefault,
	"legacy":  rejoin.EraLegacy,
	"modern":  rejoin.EraModern,
}

func eraNames() string { return strings.Join(slices.Sorted(maps.Keys(eras)), ", ") }

// config is the configuration of every fixture.
func config(era string, log *slog.Logger) (rejoin.Config, error) {
	value, ok := eras[era]
	if !ok {
		return rejoin.Config{}, fmt.Errorf("unknown eras %q; there is %s", era, eraNames())
	}
	return rejoin.Config{
		Eras:      value,
		Policy:    rejoin.Policy{TaskAfter: sample.TaskAfter},
		PolicyFor: policy,
		Tasks:     rejoin.Tasks{TTL: time.Minute, PollInterval: 200 * time.Millisecond, Required: required},
		Logger:    log,
	}, nil
}

// required names the tools that the suite wants refused for clients without tasks.
func required(tool string) bool { return tool == "failing_job" || tool == "test_tool_with_task" }

// policy answers tools/list with a stream, because the suite tests concurrent streams with it. Every other request gets plain JSON if it is
// quick. So both forms are tested. slow_compute becomes a task early.
func policy(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
	switch {
	case r.Method == "tools/list":
		p.Mode = rejoin.ModeSSE
	case r.Name == "slow_compute":
		p.TaskAfter = sample.ComputeTaskAfter
	}
	return p
}
