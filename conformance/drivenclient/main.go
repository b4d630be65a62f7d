// Drivenclient is a client of package client that is controlled line by line by the tests of this module, like the clients in ../clients.
//
//	drivenclient <url>
//
// It connects as package client does by default, then obeys each line of stdin. "call <tool>" starts a call, with the tool's name as the
// progress token. "cancel <tool>" cancels it. "resume <tool> <token>" continues a call of an earlier process. The end of stdin ends the session.
// It prints what it receives, one JSON object a line: {"kind": ..., "of": ..., "text": ...}. When a call has become a task, it prints the
// call's token, kind "task".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rejoin-mcp/rejoin/client"
)

func main() {
	if err := run(context.Background(), os.Args[len(os.Args)-1]); err != nil {
		say("failed", "", err.Error())
		os.Exit(1)
	}
	say("ended", "", "")
}

func run(ctx context.Context, url string) error {
	calls := &running{calls: map[string]*client.Call{}}
	cfg := client.Config{
		Name: "client", Version: "1",
		Capabilities:   map[string]any{"elicitation": map[string]any{"form": struct{}{}}},
		OnRequest:      answer,
		OnNotification: sayLog, // opens the standalone stream
		Trace: func(e client.TraceEvent) {
			if e.Kind == client.TraceTask {
				calls.sayTasks()
			}
		},
	}
	session, err := client.Connect(ctx, url, cfg)
	if err != nil {
		return err
	}
	say("connected", "", session.Version())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch verb, name := words[0], words[1]; verb {
		case "call":
			calls.begin(ctx, name, func() (*client.Call, error) {
				return session.Start(ctx, "tools/call", map[string]any{
					"name": name, "arguments": struct{}{}, "_meta": map[string]any{"progressToken": name},
				})
			})
		case "resume":
			calls.begin(ctx, name, func() (*client.Call, error) { return client.Resume(ctx, url, words[2], cfg) })
		case "cancel":
			calls.cancel(name)
		}
	}
	calls.Wait()
	return session.Close(ctx)
}

// running are the calls that were begun, by tool.
type running struct {
	sync.WaitGroup

	mu    sync.Mutex
	calls map[string]*client.Call
	tasks []string // the tools whose tasks were printed
}

// begin begins a call, and follows it. The lock is held meanwhile, so that a task is not reported before its call is known.
func (r *running) begin(ctx context.Context, name string, start func() (*client.Call, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := start()
	if err != nil {
		say("error", name, err.Error())
		return
	}
	r.calls[name] = c
	r.Go(func() { follow(ctx, name, c) })
}

func (r *running) cancel(name string) {
	r.mu.Lock()
	c := r.calls[name]
	r.mu.Unlock()
	r.Go(func() { c.Cancel("by the user") })
}

// sayTasks prints the tokens of new tasks.
func (r *running) sayTasks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, c := range r.calls {
		if token := c.Token(); token != "" && !slices.Contains(r.tasks, name) {
			r.tasks = append(r.tasks, name)
			say("task", name, token)
		}
	}
}

// follow prints what comes for a call, until it has ended.
func follow(ctx context.Context, name string, c *client.Call) {
	for m := range c.Messages() {
		var params struct {
			Progress      float64 `json:"progress"`
			StatusMessage string  `json:"statusMessage"`
		}
		if err := json.Unmarshal(m.Params, &params); err != nil {
			say("trouble", "", err.Error())
		}
		switch m.Method {
		case "notifications/progress":
			say("progress", name, fmt.Sprint(params.Progress))
		case "notifications/tasks":
			say("status", name, params.StatusMessage)
		default:
			sayLog(m.Method, m.Params)
		}
	}
	var result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := c.Wait(ctx, &result); err != nil {
		say("error", name, err.Error())
		return
	}
	var text strings.Builder
	for _, part := range result.Content {
		text.WriteString(part.Text)
	}
	say("result", name, text.String())
}

// sayLog prints what the server logs.
func sayLog(method string, params json.RawMessage) {
	var log struct {
		Data string `json:"data"`
	}
	if method != "notifications/message" {
		return
	}
	if err := json.Unmarshal(params, &log); err != nil {
		say("trouble", "", err.Error())
	}
	say("log", "", log.Data)
}

func answer(_ context.Context, method string, params json.RawMessage) (any, error) {
	if method != "elicitation/create" {
		return nil, &client.Error{Code: -32601, Message: "unknown method"}
	}
	var question struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(params, &question); err != nil {
		return nil, err
	}
	say("asked", "", question.Message)
	return map[string]any{"action": "accept", "content": map[string]any{"name": "Ann"}}, nil
}

var stdout sync.Mutex

func say(kind, of, text string) {
	stdout.Lock()
	defer stdout.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"kind": kind, "of": of, "text": text}); err != nil {
		panic(err) // the test sees that the process ends
	}
}
