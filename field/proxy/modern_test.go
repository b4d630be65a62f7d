//go:build nginx

package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// modernClient is a client of version 2026-07-28 that takes tasks. It has no session and sends nothing but what it must.
type modernClient struct {
	n    entrance
	last int // id
}

func enterModern(_ *testing.T, n entrance, _ func(string)) user { return &modernClient{n: n} }

// task is a result: of a call, or of a request about a task.
type task struct {
	ResultType, TaskID, Status, StatusMessage string
	PollIntervalMs                            int
	Content                                   []struct{ Text string }
	Result                                    struct{ Content []struct{ Text string } }
	Error                                     json.RawMessage
}

// call calls the tool, and polls if it was given a task. heard gets each statusMessage that is new.
func (u *modernClient) call(ctx context.Context, heard func(string)) (string, error) {
	r, err := u.send(ctx, "tools/call", "work", `"name":"work","arguments":{}`)
	if err != nil {
		return "", err
	}
	if r.ResultType == "complete" {
		return r.Content[0].Text, nil
	}
	id, before := r.TaskID, ""
	for r.Status == "working" {
		select {
		case <-time.After(time.Duration(r.PollIntervalMs) * time.Millisecond):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		if r, err = u.send(ctx, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id)); err != nil {
			return "", err
		}
		if r.StatusMessage != before {
			heard(r.StatusMessage)
			before = r.StatusMessage
		}
	}
	if r.Status != "completed" {
		return "", fmt.Errorf("the task is %s: %s", r.Status, r.Error)
	}
	return r.Result.Content[0].Text, nil
}

// send sends a request and returns its result. Each status but 200 is an error.
func (u *modernClient) send(ctx context.Context, method, name, params string) (result task, err error) {
	u.last++
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s,"_meta":{"progressToken":"t",`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, u.last, method, params)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.n.url(), strings.NewReader(body))
	if err != nil {
		return result, err
	}
	for name, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		r.Header.Set(name, value)
	}
	answer, err := u.n.client().Do(r)
	if err != nil {
		return result, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return result, err
	case answer.StatusCode != http.StatusOK:
		return result, fmt.Errorf("%s: %s", answer.Status, raw)
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") { // the response is the last event
		_, last, _ := strings.Cut(string(raw[strings.LastIndex(string(raw), "data:"):]), "data:")
		raw = []byte(last)
	}
	var message struct {
		Result task
		Error  json.RawMessage
	}
	if err = json.Unmarshal(raw, &message); err == nil && message.Error != nil {
		err = fmt.Errorf("%s: %s", method, message.Error)
	}
	return message.Result, err
}
