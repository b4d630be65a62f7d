package show

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// workFunc does one step of the job. It stands for the slow part of a real tool.
type workFunc func(ctx context.Context, step int) error

const (
	defaultSteps = 10
	maxSteps     = 100
)

// newTool returns the tool with its schema.
func newTool(work workFunc) rejoin.Tool {
	return rejoin.Tool{
		Name:        "long_job",
		Title:       "Long job",
		Description: "Works through numbered steps, reports each as progress, and lets its client go after every third.",
		InputSchema: json.RawMessage(fmt.Sprintf(`{
			"type": "object",
			"properties": {
				"steps": {"type": "integer", "minimum": 1, "maximum": %d, "default": %d, "description": "How many steps."}
			},
			"additionalProperties": false
		}`, maxSteps, defaultSteps)),
		Run: func(ctx context.Context, r *rejoin.Request) (any, error) {
			arguments := struct {
				Steps int `json:"steps"`
			}{defaultSteps}
			if err := r.BindArguments(&arguments); err != nil {
				return rejoin.ToolError(err), nil // for the model to read; err itself would be for the client's program
			}
			if arguments.Steps < 1 || arguments.Steps > maxSteps {
				return rejoin.ToolError(fmt.Errorf("steps must be from 1 to %d, not %d", maxSteps, arguments.Steps)), nil
			}
			return longJob(ctx, arguments.Steps, work)
		},
	}
}

// longJob disconnects its client after every third step, and works on meanwhile. In the modern era the first of these makes the call a task.
func longJob(ctx context.Context, steps int, work workFunc) (any, error) {
	h := rejoin.HandleFromContext(ctx)
	for step := 1; step <= steps; step++ {
		if err := work(ctx, step); err != nil {
			return nil, err
		}
		_ = h.Progress(float64(step), float64(steps), "") // nothing that a job should fail for
		if step%3 == 0 {
			_ = h.CloseStream(0) // an error means only that this client stays connected
		}
	}
	return rejoin.Text(fmt.Sprintf("%d steps done", steps)), nil
}

// newServer makes a server with the tool, and a router with the server.
func newServer(mount Mount, work workFunc) (*rejoin.Server, http.Handler, error) {
	app := rejoin.NewToolApp(rejoin.Info{Name: "quickstart", Version: "1.0.0"}, newTool(work))
	srv, err := rejoin.NewServer(app, rejoin.Config{
		Policy: rejoin.Policy{Retry: 450 * time.Millisecond}, Tasks: rejoin.Tasks{PollInterval: 450 * time.Millisecond},
	})
	if err != nil {
		return nil, nil, err
	}
	return srv, mount("/mcp", srv), nil
}
