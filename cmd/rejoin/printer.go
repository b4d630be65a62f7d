package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/rejoin-mcp/rejoin/client"
)

// printer writes the output of commands: results to stdout and all else to the console, or with --json everything to stdout.
type printer struct {
	console   *console
	stdout    io.Writer
	terminal  bool // stdout is a terminal
	json      bool
	connected func(protocol string) // is called when there is a session
}

func newPrinter(stdout, stderr *os.File) *printer {
	return &printer{console: newConsole(stderr), stdout: stdout, terminal: term.IsTerminal(int(stdout.Fd())), connected: func(string) {}}
}

// record is a line of --json.
type record struct {
	Type    string          `json:"type"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Tool    json.RawMessage `json:"tool,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *client.Error   `json:"error,omitempty"`
	Message string          `json:"message,omitempty"`
	Token   string          `json:"token,omitempty"`
}

// record writes a line of JSON. On a terminal, control characters are escaped; the JSON means the same.
func (p *printer) record(r record) {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	_ = e.Encode(r) //nolint:errchkjson // package client has checked the raw messages
	text := line.String()
	if p.terminal {
		text = escaped(text)
	}
	_, _ = io.WriteString(p.stdout, text) // if stdout is gone, nothing can be printed
}

// escaped is a line of JSON with escapes for the control characters in its strings. None of them has more than 16 bits.
func escaped(line string) string {
	if !strings.ContainsFunc(strings.TrimSuffix(line, "\n"), isControl) {
		return line
	}
	var b strings.Builder
	for _, r := range line {
		if r != '\n' && isControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// message prints a notification.
func (p *printer) message(m client.Message) {
	switch {
	case p.json:
		p.record(record{Type: "message", Method: m.Method, Params: m.Params})
	case m.Method == "notifications/progress":
		p.console.progress(progress(m.Params))
	case m.Method == "notifications/tasks":
		p.task(m.Params)
	case m.Method == "notifications/message":
		p.console.line(logged(m.Params))
	default:
		p.console.line(strings.TrimSpace(m.Method + " " + string(m.Params)))
	}
}

func progress(params json.RawMessage) string {
	var v struct {
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	if json.Unmarshal(params, &v) != nil {
		return string(params)
	}
	text := strconv.FormatFloat(v.Progress, 'f', -1, 64)
	if v.Total > 0 {
		text += fmt.Sprintf("/%s (%.0f%%)", strconv.FormatFloat(v.Total, 'f', -1, 64), 100*v.Progress/v.Total)
	}
	return strings.TrimSpace(text + " " + v.Message)
}

// task prints what the server says of a task. The reason for which a task has failed or was cancelled is not progress.
func (p *printer) task(params json.RawMessage) {
	var v struct {
		Status  string `json:"status"`
		Message string `json:"statusMessage"`
	}
	_ = json.Unmarshal(params, &v) // package client has made it
	if v.Status == "failed" || v.Status == "cancelled" {
		p.console.line("rejoin: the task has ended (" + v.Status + "): " + v.Message)
		return
	}
	p.console.progress(v.Message)
}

func logged(params json.RawMessage) string {
	var v struct {
		Level  string          `json:"level"`
		Logger string          `json:"logger"`
		Data   json.RawMessage `json:"data"`
	}
	if json.Unmarshal(params, &v) != nil {
		return string(params)
	}
	text := string(v.Data)
	_ = json.Unmarshal(v.Data, &text) // what is not a string stays JSON
	if v.Logger != "" {
		v.Level += " " + v.Logger
	}
	return v.Level + ": " + text
}

// result prints the result of a tool, and reports whether the tool failed.
func (p *printer) result(raw json.RawMessage) (failed bool) {
	var v struct {
		IsError           bool              `json:"isError"`
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent"`
	}
	err := json.Unmarshal(raw, &v)
	p.console.clear()
	switch {
	case p.json:
		p.record(record{Type: "result", Result: raw})
	case err != nil || len(v.Content) == 0 && len(v.StructuredContent) == 0:
		p.text(string(raw))
	case len(v.Content) == 0:
		p.text(string(v.StructuredContent))
	default:
		for _, block := range v.Content {
			p.text(content(block))
		}
	}
	return v.IsError
}

// content is a block of a result as text; for other blocks, what they are.
func content(block json.RawMessage) string {
	var v struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
	}
	switch err := json.Unmarshal(block, &v); {
	case err == nil && v.Type == "text":
		return v.Text
	case err == nil && v.Data != "":
		return fmt.Sprintf("[%s, %s, %d bytes of base64; --json has it]", v.Type, v.MimeType, len(v.Data))
	}
	return string(block)
}

// text prints to stdout. On a terminal, control characters become blanks.
func (p *printer) text(text string) {
	if p.terminal {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = printable(lines[i])
		}
		text = strings.Join(lines, "\n")
	}
	fmt.Fprintln(p.stdout, strings.TrimSuffix(text, "\n"))
}

// left prints the token of a call that was left.
func (p *printer) left(token string) {
	if p.json {
		p.record(record{Type: "left", Token: token})
		return
	}
	p.console.line("rejoin: the call goes on without us")
	p.resumeWith(token)
}

func (p *printer) resumeWith(token string) {
	p.console.line("rejoin: its token is a secret; to go on with it:")
	p.console.line("rejoin resume " + quoted(token))
}

// failed prints the JSON-RPC error that the server answered with.
func (p *printer) failed(err *client.Error) {
	if p.json {
		p.record(record{Type: "error", Error: err})
		return
	}
	p.console.line("rejoin: the server answered with " + err.Error())
	if len(err.Data) > 0 {
		p.console.line("rejoin: " + string(err.Data))
	}
}

// failure prints why there is no answer.
func (p *printer) failure(err error, token string) {
	text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "client: "), "\n", "; ")
	if p.json {
		p.record(record{Type: "failure", Message: text, Token: token})
		return
	}
	p.console.line("rejoin: " + text)
	if token != "" {
		p.resumeWith(token)
	}
}

// quoted is an argument for a shell.
func quoted(text string) string {
	if text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:/#") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// logger is Config.Logger of package client.
func (p *printer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(lineWriter{p.console}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// lineWriter makes each write a line.
type lineWriter struct{ c *console }

func (w lineWriter) Write(b []byte) (int, error) {
	w.c.line(string(bytes.TrimSpace(b)))
	return len(b), nil
}

// asError returns the JSON-RPC error that a server answered a call with; nil: err is another one, for example a refusal with an HTTP status.
func asError(err error) *client.Error {
	var e *client.Error
	var refused *client.StatusError
	var version *client.VersionError
	if errors.Is(err, client.ErrExpired) || errors.As(err, &refused) || errors.As(err, &version) || !errors.As(err, &e) {
		return nil
	}
	return e
}
