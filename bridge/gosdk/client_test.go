package gosdk

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// client is an HTTP client that knows only the headers of MCP.
type client struct {
	t       *testing.T
	url     string
	session string
	headers map[string]string
}

// response is an HTTP response whose body is read event by event.
type response struct {
	*http.Response
	t    *testing.T
	body *bufio.Reader
}

func (c *client) do(method, body, cursor string) *response {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range c.headers {
		req.Header.Set(k, v)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, body, err)
	}
	c.t.Cleanup(func() { res.Body.Close() })
	return &response{res, c.t, bufio.NewReader(res.Body)}
}

func (c *client) initialize(version string) *client {
	c.t.Helper()
	res := c.do("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+
		`","capabilities":{"elicitation":{}},"clientInfo":{"name":"raw","version":"1"}}}`, "")
	if c.session = res.Header.Get("Mcp-Session-Id"); res.StatusCode != http.StatusOK || c.session == "" {
		c.t.Fatalf("initialize: %s %s", res.Status, res.rest())
	}
	c.tell(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *client) tell(body string) {
	c.t.Helper()
	if res := c.do("POST", body, ""); res.StatusCode != http.StatusAccepted {
		c.t.Fatalf("%s: %s %s", body, res.Status, res.rest())
	}
}

func (c *client) call(id, tool, name string) *response {
	c.t.Helper()
	return c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"name":%q},"_meta":{"progressToken":%q}}}`,
		id, tool, name, name), "")
}

func (r *response) rest() string {
	b, _ := io.ReadAll(r.body)
	return string(b)
}

// block reads up to the next empty line; "" is the end of the stream.
func (r *response) block() string {
	r.t.Helper()
	var b strings.Builder
	for {
		line, err := r.body.ReadString('\n')
		if err == io.EOF && b.Len()+len(line) == 0 {
			return ""
		}
		if err != nil {
			r.t.Fatalf("the stream broke inside an event: %q %v", b.String()+line, err)
		}
		if line == "\n" {
			return b.String()
		}
		b.WriteString(line)
	}
}

// primer reads the first event and returns its id.
func (r *response) primer() string {
	r.t.Helper()
	if got := r.Header.Get("Content-Type"); r.StatusCode != http.StatusOK || got != "text/event-stream" {
		r.t.Fatalf("no stream: %s %s %s", r.Status, got, r.rest())
	}
	block := r.block()
	lines := strings.Split(block, "\n")
	id, ok := strings.CutPrefix(lines[0], "id: ")
	if !ok || len(lines) != 4 || !strings.HasPrefix(lines[1], "retry: ") || lines[2] != "data: " {
		r.t.Fatalf("no primer: %q", block)
	}
	return id
}

type wireMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Token     string          `json:"progressToken"`
		Progress  int             `json:"progress"`
		Message   string          `json:"message"`
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
	Result struct {
		Content []struct{ Text string } `json:"content"`
	} `json:"result"`
	Error *struct{ Code int } `json:"error"`
}

func (m wireMessage) String() string {
	switch {
	case m.Method != "":
		return fmt.Sprintf("%s %d %s", m.Method, m.Params.Progress, m.Params.Message)
	case m.Error != nil:
		return fmt.Sprintf("%s error %d", m.ID, m.Error.Code)
	case len(m.Result.Content) > 0:
		return fmt.Sprintf("%s %s", m.ID, m.Result.Content[0].Text)
	}
	return string(m.ID)
}

// message reads a message and returns its event id.
func (r *response) message() (wireMessage, string) {
	r.t.Helper()
	block := r.block()
	lines := strings.Split(block, "\n")
	id, isID := strings.CutPrefix(lines[min(1, len(lines)-1)], "id: ")
	if !isID || len(lines) != 4 || lines[0] != "event: message" {
		r.t.Fatalf("no message: %q", block)
	}
	var m wireMessage
	if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[2], "data: ")), &m); err != nil {
		r.t.Fatalf("no message: %q: %v", block, err)
	}
	return m, id
}

func (r *response) expect(want string) (id string) {
	r.t.Helper()
	m, id := r.message()
	if m.String() != want {
		r.t.Fatalf("got %q, want %q", m, want)
	}
	return id
}

// expectRetry reads a retry of ms, lengthened by up to a fifth.
func (r *response) expectRetry(ms int) {
	r.t.Helper()
	block, got := r.block(), 0
	if _, err := fmt.Sscanf(block, "retry: %d\n", &got); err != nil || strings.Count(block, "\n") != 1 || got < ms || got > ms+ms/5 {
		r.t.Fatalf("got %q, want a retry of %d", block, ms)
	}
}

func (r *response) expectBlock(want string) {
	r.t.Helper()
	if got := r.block(); got != want {
		r.t.Fatalf("got %q, want %q", got, want)
	}
}
