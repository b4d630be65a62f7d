package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rejoin-mcp/rejoin"
)

// workFunc does one step of the job. It stands for what takes long in a real tool.
type workFunc func(ctx context.Context, step int) error

const (
	defaultSteps = 10
	maxSteps     = 100
)

var info = rejoin.Info{Name: "quickstart", Version: "1.0.0", Capabilities: map[string]any{"tools": struct{}{}}}

var toolList = json.RawMessage(fmt.Sprintf(`{"tools":[{
	"name": "long_job",
	"title": "Long job",
	"description": "Works through numbered steps, reports each as progress, and lets its client go after every third.",
	"inputSchema": {
		"type": "object",
		"properties": {
			"steps": {"type": "integer", "minimum": 1, "maximum": %d, "default": %d, "description": "How many steps."}
		},
		"additionalProperties": false
	}
}]}`, maxSteps, defaultSteps))

// methods is the MCP server behind rejoin, without an SDK: a list of one tool, and its call.
func methods(work workFunc) rejoin.Handler {
	return func(ctx context.Context, r *rejoin.Request) (any, error) {
		switch r.Method {
		case "tools/list":
			return toolList, nil
		case "tools/call":
			return call(ctx, r, work)
		default:
			return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "unknown method %q", r.Method)
		}
	}
}

func call(ctx context.Context, r *rejoin.Request, work workFunc) (any, error) {
	if r.Name() != "long_job" {
		return nil, rejoin.Errorf(rejoin.CodeInvalidParams, "unknown tool %q", r.Name())
	}
	arguments := struct {
		Steps int `json:"steps"`
	}{defaultSteps}
	if err := r.BindArguments(&arguments); err != nil {
		return nil, err
	}
	if arguments.Steps < 1 || arguments.Steps > maxSteps {
		return toolResult(fmt.Sprintf("steps must be from 1 to %d, not %d", maxSteps, arguments.Steps), true), nil
	}
	text, err := longJob(ctx, arguments.Steps, work)
	if err != nil {
		return nil, err
	}
	return toolResult(text, false), nil
}

// toolResult is the answer to tools/call. What is wrong with the arguments goes into it too: a model reads results, not errors.
func toolResult(text string, failed bool) map[string]any {
	return map[string]any{
		"content": []map[string]string{{"type": "text", "text": text}},
		"isError": failed,
	}
}
