package subject

import (
	"encoding/json"
	"fmt"
	"log/slog"
)

// The name of every subject and the descriptions of its tools. The hand-written subjects and rejoin's own handler share the types below, so
// they decode and encode the same.
const (
	serverName    = "bench"
	serverVersion = "1"

	echoAbout  = "Answers with its text."
	burstAbout = "Reports progress n times."
	holdAbout  = "Waits for the gate."

	burstAnswer = "done"
	holdAnswer  = "released"
	stepMessage = "step"

	// retryMillis is the time after which a client shall poll, in subjects that can say it.
	retryMillis = 1000
)

// The schemas of the arguments, for libraries that do not derive them.
const (
	echoSchema  = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`
	burstSchema = `{"type":"object","properties":{"n":{"type":"integer"},"close":{"type":"boolean"}},"required":["n"]}`
	holdSchema  = `{"type":"object","properties":{"close":{"type":"boolean"},"text":{"type":"string"}}}`
)

type (
	echoArgs struct {
		Text string `json:"text"`
	}
	burstArgs struct {
		N     int  `json:"n"`
		Close bool `json:"close,omitempty"`
	}
	holdArgs struct {
		Close bool   `json:"close,omitempty"`
		Text  string `json:"text,omitempty"`
	}
)

// callParams are the params of tools/call.
type callParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      struct {
		Token json.RawMessage `json:"progressToken"`
	} `json:"_meta"`
}

// bind decodes the arguments into v.
func (p *callParams) bind(v any) error {
	if len(p.Arguments) == 0 {
		return nil
	}
	return json.Unmarshal(p.Arguments, v)
}

type (
	textContent struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	callResult struct {
		Content []textContent `json:"content"`
	}
	progressParams struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total,omitempty"`
		Message  string          `json:"message,omitempty"`
	}
	toolInfo struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	toolList struct {
		Tools []toolInfo `json:"tools"`
	}
)

func textResult(text string) *callResult { return &callResult{[]textContent{{"text", text}}} }

// tools is the answer to tools/list.
var tools = toolList{[]toolInfo{
	{Echo, echoAbout, json.RawMessage(echoSchema)},
	{Burst, burstAbout, json.RawMessage(burstSchema)},
	{Hold, holdAbout, json.RawMessage(holdSchema)},
}}

func unknownTool(name string) error { return fmt.Errorf("unknown tool %q", name) }

// discardLogger is the logger of all subjects: the cost of logging is not measured.
func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }
