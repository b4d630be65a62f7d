package gosdk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// These tests use real sockets and a real clock: what they prove is that the SDK, its client and HTTP fit together. They wait for
// events, and patience bounds the wait.
const patience = 20 * time.Second

func receive[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}

// bench is a bridged server on a real socket, and what its tools report.
type bench struct {
	t      *testing.T
	mcp    *mcp.Server
	app    *app
	srv    *rejoin.Server
	url    string
	opened chan *session

	parked  chan string   // a tool has let its client go, and sent something since
	begun   chan string   // a tool has begun
	causes  chan error    // why a tool's context ended
	release chan struct{} // lets tools go that wait for it
	seen    chan struct{} // the client has got what a tool waits for
}

// spy tells of each session that is opened.
type spy struct {
	*app
	opened chan *session
	state  []byte // what Open restores
}

func (s *spy) Open(r *http.Request, n *rejoin.Session, _ []byte) (rejoin.AppSession, error) {
	a, err := s.app.Open(r, n, s.state)
	if err == nil {
		s.opened <- a.(*session)
	}
	return a, err
}

func newBench(t *testing.T, cfg rejoin.Config, opts *mcp.ServerOptions) *bench {
	b := &bench{
		t: t, mcp: mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, opts), opened: make(chan *session, 64),
		parked: make(chan string, 64), begun: make(chan string, 64), causes: make(chan error, 64), release: make(chan struct{}), seen: make(chan struct{}),
	}
	b.addTools()
	b.app = New(b.mcp).(*app)
	b.serve(cfg, &spy{app: b.app, opened: b.opened})
	return b
}

func (b *bench) serve(cfg rejoin.Config, app rejoin.App) {
	srv, err := rejoin.NewServer(app, cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.srv = srv
	h := stdadapter.New(srv)
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	secure := auth.RequireBearerToken(verify, nil)(h)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), trace{}, r.Header.Get("X-Trace")))
		if r.Header.Get("Authorization") != "" {
			secure.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}))
	b.t.Cleanup(func() { srv.Close(); ts.CloseClientConnections(); ts.Close() })
	b.url = ts.URL
}

type trace struct{}

type toolArgs struct {
	Name string `json:"name"`
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func progress(ctx context.Context, req *mcp.CallToolRequest, n int, message string) error {
	return req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: req.Params.GetProgressToken(), Progress: float64(n), Message: message,
	})
}

func (b *bench) addTools() {
	add := func(name string, run func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error)) {
		mcp.AddTool(b.mcp, &mcp.Tool{Name: name}, func(ctx context.Context, req *mcp.CallToolRequest, a toolArgs) (*mcp.CallToolResult, any, error) {
			r, err := run(ctx, req, a.Name)
			return r, nil, err
		})
	}
	schema := map[string]any{"type": "object", "properties": map[string]any{"color": map[string]any{"type": "string"}}}
	add("work", func(ctx context.Context, req *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
		h := rejoin.HandleFromContext(ctx)
		if err := progress(ctx, req, 1, name); err != nil {
			return nil, err
		}
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: name, RequestedSchema: schema})
		if err != nil {
			return nil, err
		}
		if err := h.CloseStream(30 * time.Millisecond); err != nil {
			return nil, err
		}
		if err := progress(ctx, req, 2, name); err != nil {
			return nil, err
		}
		b.parked <- name
		if err := h.WaitConnected(ctx); err != nil {
			return nil, err
		}
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 40 * time.Millisecond})
		if h.Connected() {
			return nil, errors.New("CloseSSEStream left the stream open")
		}
		if err := progress(ctx, req, 3, name); err != nil {
			return nil, err
		}
		b.parked <- name
		return text("%s is %v", name, answer.Content["color"]), nil
	})
	add("chatter", func(ctx context.Context, req *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
		b.begun <- name
		<-b.release
		for i := range 20 {
			if err := progress(ctx, req, i+1, name); err != nil {
				return nil, err
			}
		}
		return text("%s", name), nil
	})
	add("block", func(ctx context.Context, req *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
		b.begun <- name
		<-ctx.Done()
		b.causes <- context.Cause(ctx)
		<-b.release
		return text("too late"), nil
	})
	add("impatient", func(ctx context.Context, req *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
		asking, cancel := context.WithCancel(ctx)
		b.begun <- name
		go func() { <-b.release; cancel() }()
		_, err := req.Session.Elicit(asking, &mcp.ElicitParams{Message: name, RequestedSchema: schema})
		<-b.seen // the SDK does not wait until the question is withdrawn
		return text("%v", err), nil
	})
	add("panic", func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		panic("the tool's own fault")
	})
	add("whoami", func(ctx context.Context, req *mcp.CallToolRequest, _ string) (*mcp.CallToolResult, error) {
		user := ""
		if req.Extra.TokenInfo != nil {
			user = req.Extra.TokenInfo.UserID
		}
		return text("%s %v %s", req.Extra.Header.Get("X-Trace"), ctx.Value(trace{}), user), nil
	})
}

// client is an HTTP client that knows nothing of MCP but the headers.
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

// block reads up to the next empty line; "": the end.
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
	id, isID := strings.CutPrefix(lines[0], "id: ")
	if !isID || len(lines) != 3 {
		r.t.Fatalf("no message: %q", block)
	}
	var m wireMessage
	if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[1], "data: ")), &m); err != nil {
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

// expectRetry reads a retry of ms, to which up to a fifth is added.
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

func (b *bench) connect(opts *mcp.ClientOptions) *mcp.ClientSession {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, opts).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: b.url}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// gone waits until the SDK has let go of a session.
func (b *bench) gone(n *session) {
	b.t.Helper()
	done := make(chan error, 1)
	go func() { done <- n.ss.Wait() }()
	receive(b.t, "the SDK's session to end", done) // what a late tool could not write is an error of the SDK's session
	for s := range b.mcp.Sessions() {
		if s == n.ss {
			b.t.Error("the SDK still lists the session")
		}
	}
}
