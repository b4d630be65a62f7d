package gosdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// The whole life of a call, byte for byte, with ids that no float64 holds and that only differ in their type.
func TestWire(t *testing.T) {
	b := newBench(t, rejoin.Config{}, nil)
	c := (&client{t: t, url: b.url}).initialize("2025-11-25")
	for _, id := range []string{`1.5`, `9007199254740993`, `"1"`, `1`} {
		seen := map[string]bool{}
		fresh := func(cursor string) string {
			t.Helper()
			if cursor == "" || seen[cursor] {
				t.Fatalf("event id %q is not new", cursor)
			}
			seen[cursor] = true
			return cursor
		}
		res := c.call(id, "work", "sky")
		fresh(res.primer())
		fresh(res.expect("notifications/progress 1 sky"))
		m, cursor := res.message()
		if m.Method != "elicitation/create" || m.ID[0] != '"' {
			t.Fatalf("got %v %s", m, m.ID)
		}
		fresh(cursor)
		c.tell(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":{"color":"blue"}}}`)
		res.expectRetry(30)
		res.expectBlock("")
		receive(t, "the tool to go on", b.parked)

		res = c.do("GET", "", cursor)
		fresh(res.primer())
		cursor = fresh(res.expect("notifications/progress 2 sky"))
		res.expectRetry(40)
		res.expectBlock("")
		receive(t, "the tool to go on", b.parked)

		res = c.do("GET", "", cursor)
		fresh(res.primer())
		fresh(res.expect("notifications/progress 3 sky"))
		cursor = fresh(res.expect(id + " sky is blue"))
		res.expectBlock("")
		if res = c.do("GET", "", cursor); res.StatusCode != http.StatusNoContent {
			t.Fatalf("poll after the end: %s", res.Status)
		}
	}
	b.app.carriers.Range(func(_, v any) bool {
		if v.(*carrier).call != nil {
			t.Error("an answered call is still known")
		}
		return true
	})
}

func TestSDKClient(t *testing.T) {
	b := newBench(t, rejoin.Config{}, nil)
	steps := make(chan string, 64)
	s := b.connect(&mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			steps <- "asked " + r.Params.Message
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "green"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			steps <- fmt.Sprint("progress ", r.Params.Progress)
		},
	})
	if v := s.InitializeResult().ProtocolVersion; v != "2025-11-25" {
		t.Fatalf("negotiated %s", v)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 3 {
		params := &mcp.CallToolParams{Name: "work", Arguments: toolArgs{"grass"}}
		params.SetProgressToken("p")
		res, err := s.CallTool(ctx, params)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Content[0].(*mcp.TextContent).Text; got != "grass is green" {
			t.Fatalf("got %q", got)
		}
		var got []string
		for range 4 {
			got = append(got, receive(t, "the client's handlers", steps))
		}
		slices.Sort(got) // the client runs them side by side
		if want := []string{"asked grass", "progress 1", "progress 2", "progress 3"}; !slices.Equal(got, want) {
			t.Fatalf("got %q", got)
		}
	}
	n := receive(t, "the session", b.opened)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b.gone(n)
}

func TestConcurrentCallsKeepTheirStreams(t *testing.T) {
	b := newBench(t, rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.SSE}}, nil)
	c := (&client{t: t, url: b.url}).initialize("2025-11-25")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			id, name := fmt.Sprint(i), fmt.Sprint("call", i)
			res := c.call(id, "chatter", name)
			res.primer()
			for n := range 20 {
				if m, _ := res.message(); m.Params.Token != name || m.String() != fmt.Sprintf("notifications/progress %d %s", n+1, name) {
					t.Errorf("%s got %v with token %s", name, m, m.Params.Token)
				}
			}
			if m, _ := res.message(); m.String() != id+" "+name {
				t.Errorf("%s got %v", name, m)
			}
			res.expectBlock("")
		})
	}
	for range 8 {
		receive(t, "all calls to run at once", b.begun)
	}
	close(b.release)
	all.Wait()
}

func TestCancel(t *testing.T) {
	b := newBench(t, rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.SSE}}, nil)
	c := (&client{t: t, url: b.url}).initialize("2025-11-25")
	res := c.call("9007199254740993", "block", "x")
	other := c.call("9007199254740992", "block", "y")
	receive(t, "the tool", b.begun)
	receive(t, "the other tool", b.begun)
	c.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993,"reason":"enough"}}`)
	if cause := receive(t, "the context's end", b.causes); cause != rejoin.ErrCancelled {
		t.Fatalf("the tool's context ended with %v", cause)
	}
	res.primer()
	res.expectBlock("")
	select {
	case cause := <-b.causes:
		t.Fatalf("another call was cancelled: %v", cause)
	default:
	}
	c.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740992}}`)
	other.primer()
	other.expectBlock("")
	close(b.release)
}

// DELETE waits for no tool: these let go only after it was answered.
func TestDeleteEndsCallsAtOnce(t *testing.T) {
	b := newBench(t, rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.SSE}}, nil)
	c := (&client{t: t, url: b.url}).initialize("2025-11-25")
	n := receive(t, "the session", b.opened)
	res := c.call("1", "block", "x")
	receive(t, "the tool", b.begun)
	if res := c.do("DELETE", "", ""); res.StatusCode != http.StatusNoContent {
		t.Fatalf("DELETE: %s", res.Status)
	}
	if cause := receive(t, "the context's end", b.causes); cause != rejoin.ErrSessionEnded {
		t.Fatalf("the tool's context ended with %v", cause)
	}
	res.primer()
	res.expectBlock("")
	if res := c.call("2", "whoami", ""); res.StatusCode != http.StatusNotFound {
		t.Fatalf("a call after DELETE: %s", res.Status)
	}
	close(b.release)
	b.gone(n)
}

func TestInitializeFails(t *testing.T) {
	b := newBench(t, rejoin.Config{}, nil)
	c := &client{t: t, url: b.url}
	for _, params := range []string{`{"protocolVersion":7}`, `[]`, `null`} {
		res := c.do("POST", `{"jsonrpc":"2.0","id":"i","method":"initialize","params":`+params+`}`, "")
		body := res.rest()
		if res.Header.Get("Mcp-Session-Id") != "" || !strings.Contains(body, `"error"`) || !strings.Contains(body, `"id":"i"`) {
			t.Fatalf("%s: %s %v %s", params, res.Status, res.Header, body)
		}
		select {
		case n := <-b.opened: // else it was refused before
			b.gone(n)
		default:
		}
		for range b.srv.Sessions() {
			t.Fatalf("%s left a session", params)
		}
	}
}

// A client that asks for more than initialize can open is asked things all the same.
func TestInitializeIsClamped(t *testing.T) {
	b := newBench(t, rejoin.Config{}, nil)
	c := (&client{t: t, url: b.url}).initialize("2026-07-28")
	res := c.call("1", "work", "sky")
	res.primer()
	res.expect("notifications/progress 1 sky")
	res.expect("elicitation/create 0 sky")
}

func TestPanic(t *testing.T) {
	var logged bytes.Buffer
	b := newBench(t, rejoin.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, nil)
	c := (&client{t: t, url: b.url}).initialize("2025-11-25")
	for _, tool := range []string{"panic", "whoami"} {
		res := c.call("1", tool, "")
		if body := res.rest(); strings.Contains(body, "-32603") != (tool == "panic") || strings.Contains(body, "own fault") {
			t.Fatalf("%s: %s %s", tool, res.Status, body)
		}
	}
	if !strings.Contains(logged.String(), "own fault") {
		t.Errorf("not logged: %s", logged.String())
	}
}

// What a tool sees of HTTP is that of the request that carries its call.
func TestRequestValues(t *testing.T) {
	b := newBench(t, rejoin.Config{Principal: Principal}, nil)
	c := (&client{t: t, url: b.url, headers: map[string]string{"X-Trace": "first", "Authorization": "Bearer ann"}}).initialize("2025-11-25")
	c.headers["X-Trace"] = "second"
	if body := c.call("1", "whoami", "").rest(); !strings.Contains(body, `"second second ann"`) {
		t.Fatal(body)
	}
	c.headers["Authorization"] = "Bearer bob"
	if res := c.call("2", "whoami", ""); res.StatusCode != http.StatusNotFound {
		t.Fatalf("another user's call: %s", res.Status)
	}
}

// A question that its tool gives up is withdrawn under the id that the client knows it by.
func TestWithdrawnQuestion(t *testing.T) {
	b := newBench(t, rejoin.Config{}, nil)
	c := (&client{t: t, url: b.url}).initialize("2025-11-25")
	res := c.call("1", "impatient", "x")
	res.primer()
	q, _ := res.message()
	close(b.release)
	m, _ := res.message()
	if m.Method != "notifications/cancelled" || string(m.Params.RequestID) != string(q.ID) {
		t.Errorf("got %v for %s, want a withdrawal of %s", m, m.Params.RequestID, q.ID)
	}
	close(b.seen)
	res.expect("1 context canceled")
}

// The SDK's pings are answered for a client that is away.
func TestKeepAlive(t *testing.T) {
	b := newBench(t, rejoin.Config{}, &mcp.ServerOptions{
		KeepAlive: 20 * time.Millisecond, KeepAliveFailureThreshold: 1000, // a busy machine may be late
	})
	pings := make(chan error, 64)
	b.mcp.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, req)
			select {
			case pings <- err:
			default:
			}
			return res, err
		}
	})
	c := (&client{t: t, url: b.url}).initialize("2025-11-25")
	for n := 0; n < 3; {
		if err := receive(t, "a ping", pings); err == nil {
			n++
		}
	}
	if res := c.call("1", "whoami", ""); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	n := receive(t, "the session", b.opened)
	c.do("DELETE", "", "")
	b.gone(n)
}

// A server that ends a session ends it for the client.
func TestServerCloses(t *testing.T) {
	b := newBench(t, rejoin.Config{}, nil)
	c := (&client{t: t, url: b.url}).initialize("2025-11-25")
	n := receive(t, "the session", b.opened)
	over := n.s.Done()
	if err := n.ss.Close(); err != nil {
		t.Fatal(err)
	}
	receive(t, "rejoin's session to end", over)
	if res := c.call("1", "whoami", ""); res.StatusCode != http.StatusNotFound {
		t.Fatal(res.Status)
	}
}

func TestNewFunc(t *testing.T) {
	b := newBench(t, rejoin.Config{}, nil)
	b.serve(rejoin.Config{}, NewFunc(func(r *http.Request) *mcp.Server {
		if r.Header.Get("X-Trace") == "" {
			return nil
		}
		return b.mcp
	}))
	if res := (&client{t: t, url: b.url}).do("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, ""); res.StatusCode != http.StatusBadRequest {
		t.Fatal(res.Status)
	}
	c := (&client{t: t, url: b.url, headers: map[string]string{"X-Trace": "here"}}).initialize("2025-11-25")
	res := c.call("1", "work", "sky")
	res.primer()
	res.expect("notifications/progress 1 sky")
}

// Both eras on one URL: a client that speaks the modern one gets the SDK's own handler.
func TestModern(t *testing.T) {
	b := newBench(t, rejoin.Config{Eras: rejoin.Both}, nil)
	s := b.connect(nil)
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "whoami", Arguments: toolArgs{"x"}})
	if err != nil || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "<nil>") && res.IsError {
		t.Fatal(res, err)
	}
	if s.InitializeResult() != nil && s.InitializeResult().ProtocolVersion < "2026" {
		t.Fatalf("negotiated %s", s.InitializeResult().ProtocolVersion)
	}
	c := (&client{t: t, url: b.url}).initialize("2025-11-25")
	if body := c.call("1", "whoami", "").rest(); !strings.Contains(body, `"id":1`) {
		t.Fatal(body)
	}
}

// resumed stands in for a transport that brings a session here: the SDK must not see the second initialize.
type resumed struct{ rejoin.AppSession }

func (s resumed) Request(c *rejoin.Call) {
	if c.Method() == "initialize" {
		_ = c.Reply(json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`))
		return
	}
	s.AppSession.Request(c)
}

type resuming struct{ *spy }

func (a resuming) Open(r *http.Request, n *rejoin.Session, _ []byte) (rejoin.AppSession, error) {
	s, err := a.spy.Open(r, n, nil)
	return resumed{s}, err
}

func TestRestore(t *testing.T) {
	subscribed := make(chan string, 8)
	opts := &mcp.ServerOptions{
		SubscribeHandler: func(_ context.Context, r *mcp.SubscribeRequest) error {
			subscribed <- r.Params.URI + r.Extra.Header.Get("X-Trace")
			return nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	}
	b := newBench(t, rejoin.Config{}, opts)
	c := (&client{t: t, url: b.url}).initialize("2025-11-25")
	for i, m := range []string{
		`"logging/setLevel","params":{"level":"warning"}`, `"resources/subscribe","params":{"uri":"a:1"}`,
		`"resources/subscribe","params":{"uri":"a:2"}`, `"resources/unsubscribe","params":{"uri":"a:1"}`,
	} {
		if body := c.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%s}`, i+1, m), "").rest(); strings.Contains(body, "error") {
			t.Fatal(body)
		}
	}
	n := receive(t, "the session", b.opened)
	n.saving.Lock()
	saved, _ := json.Marshal(&n.state)
	n.saving.Unlock()

	b2 := newBench(t, rejoin.Config{}, opts)
	b2.serve(rejoin.Config{}, resuming{&spy{app: b2.app, opened: b2.opened, state: saved}})
	for range 2 {
		receive(t, "the subscriptions before", subscribed)
	}
	c2 := (&client{t: t, url: b2.url, headers: map[string]string{"X-Trace": "again"}})
	c2.initialize("2025-11-25")
	if got := receive(t, "the subscription", subscribed); got != "a:2again" {
		t.Fatal(got)
	}
	res := c2.call("1", "work", "sky")
	res.primer()
	res.expect("notifications/progress 1 sky")
	res.expect("elicitation/create 0 sky")
	n2 := receive(t, "the session", b2.opened)
	if p := n2.ss.InitializeParams(); p.ClientInfo.Name != "raw" || p.Capabilities.RootsV2 != nil {
		t.Errorf("%+v", p)
	}
}
