package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

const (
	modernProtocol = "2026-07-28"
	tasksExtension = "io.modelcontextprotocol/tasks"
)

// taskClient calls the tool in the modern era, and takes a task for it, as the extension requires: it declares the extension in the call, and if it is
// given a task, asks how far that is, as often as the server says.
type taskClient struct {
	url string
	see *timeline

	id    int // of the last request
	live  int // messages on the connection of the call
	polls int
}

// message is a message to the client: the answer to a request, or progress.
type message struct {
	Method string `json:"method"`
	Params struct {
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
	} `json:"params"`
	Result taskResult      `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// taskResult has the fields of all results that the client gets.
type taskResult struct {
	Capabilities struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	} `json:"capabilities"`
	ResultType     string `json:"resultType"`
	TaskID         string `json:"taskId"`
	Status         string `json:"status"`
	StatusMessage  string `json:"statusMessage"`
	PollIntervalMs int    `json:"pollIntervalMs"`
	Result         struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

// run asks what the server has, calls the tool, and polls the task.
func (c *taskClient) run(ctx context.Context, steps int) error {
	c.see.sent("POST server/discover")
	found, err := c.do(ctx, "server/discover", "", "")
	if err != nil {
		return err
	}
	if found.Capabilities.Extensions[tasksExtension] == nil {
		return errors.New("the server has no tasks")
	}
	c.see.answered("200, the server has tasks")
	c.see.sent(fmt.Sprintf("POST tools/call long_job, %d steps", steps))
	task, err := c.do(ctx, "tools/call", "long_job", fmt.Sprintf(`"name":"long_job","arguments":{"steps":%d},`, steps))
	if err != nil {
		return err
	}
	if task.ResultType != "task" {
		return errors.New("that is no task")
	}
	wait := time.Duration(task.PollIntervalMs) * time.Millisecond
	c.see.task(task.TaskID, fmt.Sprintf("a task in place of the result, poll after %v", wait))
	return c.poll(ctx, task.TaskID, wait, fmt.Sprintf("%d of %[1]d", steps))
}

// poll asks for the task until it has ended. last is the last thing that the tool says of its progress.
func (c *taskClient) poll(ctx context.Context, id string, wait time.Duration, last string) error {
	for {
		c.see.waiting(wait)
		if err := pause(ctx, wait); err != nil {
			return err
		}
		c.see.asked(id)
		c.polls++
		task, err := c.do(ctx, "tasks/get", id, fmt.Sprintf(`"taskId":%q,`, id))
		if err != nil {
			return err
		}
		c.see.task(id, task.Status+": "+task.StatusMessage)
		switch {
		case task.Status == "working":
			wait = time.Duration(task.PollIntervalMs) * time.Millisecond
			continue
		case task.Status != "completed":
			return fmt.Errorf("the task is %s: %s", task.Status, task.Error)
		case task.StatusMessage != last:
			return fmt.Errorf("the task ends with %q, want %q", task.StatusMessage, last)
		}
		var texts []string
		for _, part := range task.Result.Content {
			texts = append(texts, part.Text)
		}
		c.see.result("", strings.Join(texts, "\n"))
		return nil
	}
}

// do sends a request and returns its result. Progress that comes before it is shown. params end with a comma, if there are any.
func (c *taskClient) do(ctx context.Context, method, name, params string) (*taskResult, error) {
	c.id++
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s`+
		`"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":%q,`+
		`"io.modelcontextprotocol/clientInfo":{"name":"quickstart","version":"1.0.0"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{%q:{}}}}}}`, c.id, method, params, modernProtocol, tasksExtension)))
	if err != nil {
		return nil, err
	}
	for field, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		"Mcp-Protocol-Version": modernProtocol, "Mcp-Method": method, "Mcp-Name": name,
	} {
		if value != "" {
			r.Header.Set(field, value)
		}
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // the part that can be read
		return nil, fmt.Errorf("%s: %s %s", method, res.Status, why)
	}
	if form := res.Header.Get("Content-Type"); form == "text/event-stream" {
		c.see.answered("200 " + form)
		return c.stream(res.Body)
	}
	var m message
	if err := json.NewDecoder(res.Body).Decode(&m); err != nil {
		return nil, err
	}
	return m.response(method)
}

// stream reads the messages of a call to its response.
func (c *taskClient) stream(body io.Reader) (*taskResult, error) {
	for events := sse.NewReader(body, maxEvent); ; {
		ev, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("reading a stream: %w", err)
		}
		if len(ev.Data) == 0 {
			continue
		}
		var m message
		if err := json.Unmarshal(ev.Data, &m); err != nil {
			return nil, fmt.Errorf("an event that is no message: %w", err)
		}
		if m.Method != "notifications/progress" {
			return m.response("tools/call")
		}
		if c.live++; int(m.Params.Progress) != c.live {
			return nil, fmt.Errorf("progress %v came in place of progress %d", m.Params.Progress, c.live)
		}
		c.see.progress("", c.live, int(m.Params.Total))
	}
}

// response returns the result, or the error as an error.
func (m *message) response(method string) (*taskResult, error) {
	if m.Error != nil {
		return nil, fmt.Errorf("%s failed: %s", method, m.Error)
	}
	return &m.Result, nil
}
