// Clientmode is a client of package client that the MCP conformance suite starts (conformance/run-client). It does what the scenario in the
// environment requires, with the server whose URL is its argument, and exits with 1 if that fails.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/client"
)

// scenarios are the suite's scenarios about what package client does. The others are about the modern era and about authorization, which is
// the caller's task.
var scenarios = map[string]func(ctx context.Context, url string) error{
	"initialize":                          initialize,
	"tools_call":                          callsTool,
	"sse-retry":                           polls,
	"elicitation-sep1034-client-defaults": answers,
	"json-schema-2020-12-preservation":    echoes,
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second) // the suite ends clients after 30 s
	defer cancel()
	name := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	err := fmt.Errorf("unknown scenario %q", name)
	if run, ok := scenarios[name]; ok && len(os.Args) == 2 {
		err = run(ctx, os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clientmode:", err)
		os.Exit(1) //nolint:gocritic // the process ends, so the deferred cancel is not needed
	}
}

// with opens a session, calls use, and closes the session.
func with(ctx context.Context, url string, cfg client.Config, use func(s *client.Session) error) error {
	cfg.Name, cfg.Version = "rejoin-conformance", "1"
	s, err := client.Connect(ctx, url, cfg)
	if err != nil {
		return err
	}
	return errors.Join(use(s), s.Close(ctx))
}

// tool has the fields of a tool that the scenarios need.
type tool struct {
	Name        string          `json:"name"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

func list(ctx context.Context, s *client.Session) (map[string]tool, error) {
	var result struct {
		Tools []tool `json:"tools"`
	}
	if err := s.Do(ctx, "tools/list", nil, &result); err != nil {
		return nil, err
	}
	tools := map[string]tool{}
	for _, t := range result.Tools {
		tools[t.Name] = t
	}
	return tools, nil
}

// call calls a listed tool, whose result must be a text.
func call(ctx context.Context, s *client.Session, name string, arguments map[string]any) error {
	tools, err := list(ctx, s)
	if err != nil {
		return err
	}
	if _, ok := tools[name]; !ok {
		return fmt.Errorf("no tool %s is listed", name)
	}
	var result struct {
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	err = s.Do(ctx, "tools/call", map[string]any{"name": name, "arguments": arguments}, &result)
	if err == nil && (result.IsError || len(result.Content) != 1 || result.Content[0].Text == "") {
		err = fmt.Errorf("%s gave no text: %+v", name, result)
	}
	return err
}

func initialize(ctx context.Context, url string) error {
	return with(ctx, url, client.Config{}, func(s *client.Session) error {
		_, err := list(ctx, s)
		return err
	})
}

func callsTool(ctx context.Context, url string) error {
	return with(ctx, url, client.Config{}, func(s *client.Session) error {
		return call(ctx, s, "add_numbers", map[string]any{"a": 2, "b": 3.5})
	})
}

// polls does not request the standalone stream: the suite's server would send the retry and the result on it instead of the call's stream.
func polls(ctx context.Context, url string) error {
	return with(ctx, url, client.Config{}, func(s *client.Session) error {
		return call(ctx, s, "test_reconnection", map[string]any{})
	})
}

// answers replies to a question that comes on the standalone stream. The suite's server must have that stream before it asks, since it does not
// keep questions. The suite requires that the defaults of the question are filled in.
func answers(ctx context.Context, url string) error {
	listening := make(chan struct{})
	var polls atomic.Bool
	isOpen := sync.OnceFunc(func() { close(listening) })
	cfg := client.Config{
		Trace: func(e client.TraceEvent) {
			if e.Stream != "" {
				return // the stream of a call
			}
			if e.Kind == client.TracePoll {
				polls.Store(true)
			}
			if e.Kind == client.TraceHead && polls.Load() {
				isOpen()
			}
		},
		Capabilities:   map[string]any{"elicitation": map[string]any{"form": map[string]any{"applyDefaults": true}}},
		OnNotification: func(string, json.RawMessage) {},
		OnRequest: func(_ context.Context, method string, params json.RawMessage) (any, error) {
			if method != "elicitation/create" {
				return nil, &client.Error{Code: -32601, Message: "unknown method"}
			}
			var question struct {
				RequestedSchema struct {
					Properties map[string]struct {
						Default any `json:"default"`
					} `json:"properties"`
				} `json:"requestedSchema"`
			}
			if err := json.Unmarshal(params, &question); err != nil {
				return nil, err
			}
			content := map[string]any{}
			for name, p := range question.RequestedSchema.Properties {
				if p.Default != nil {
					content[name] = p.Default
				}
			}
			return map[string]any{"action": "accept", "content": content}, nil
		},
	}
	return with(ctx, url, cfg, func(s *client.Session) error {
		select {
		case <-listening:
		case <-ctx.Done():
			return fmt.Errorf("the standalone stream: %w", ctx.Err())
		}
		return call(ctx, s, "test_client_elicitation_defaults", map[string]any{})
	})
}

// echoes sends a schema back unchanged.
func echoes(ctx context.Context, url string) error {
	return with(ctx, url, client.Config{}, func(s *client.Session) error {
		tools, err := list(ctx, s)
		if err != nil {
			return err
		}
		return call(ctx, s, "json_schema_echo", map[string]any{"schema": tools["json_schema_2020_12_tool"].InputSchema})
	})
}
