package gosdk

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// A complete call, byte for byte, with ids that a float64 cannot hold and with ids that differ only in their type.
func TestWire(t *testing.T) {
	f := newFixture(t, rejoin.Config{}, nil)
	c := (&client{t: t, url: f.url}).initialize("2025-11-25")
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
		receive(t, "the tool to go on", f.disconnected)

		res = c.do("GET", "", cursor)
		fresh(res.primer())
		cursor = fresh(res.expect("notifications/progress 2 sky"))
		res.expectRetry(40)
		res.expectBlock("")
		receive(t, "the tool to go on", f.disconnected)

		res = c.do("GET", "", cursor)
		fresh(res.primer())
		fresh(res.expect("notifications/progress 3 sky"))
		cursor = fresh(res.expect(id + " sky is blue"))
		res.expectBlock("")
		if res = c.do("GET", "", cursor); res.StatusCode != http.StatusNoContent {
			t.Fatalf("poll after the end: %s", res.Status)
		}
	}
	n := receive(t, "the session", f.opened)
	if calls, _ := n.pending(); calls != 0 {
		t.Errorf("%d answered calls are still known", calls)
	}
}

func TestSDKClient(t *testing.T) {
	f := newFixture(t, rejoin.Config{}, nil)
	steps := make(chan string, 64)
	s := f.connect(&mcp.ClientOptions{
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
		slices.Sort(got) // the client runs its handlers concurrently
		if want := []string{"asked grass", "progress 1", "progress 2", "progress 3"}; !slices.Equal(got, want) {
			t.Fatalf("got %q", got)
		}
	}
	n := receive(t, "the session", f.opened)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f.waitEnded(n)
}

func TestCancel(t *testing.T) {
	f := newFixture(t, rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.ModeSSE}}, nil)
	c := (&client{t: t, url: f.url}).initialize("2025-11-25")
	res := c.call("9007199254740993", "block", "x")
	other := c.call("9007199254740992", "block", "y")
	receive(t, "the tool", f.started)
	receive(t, "the other tool", f.started)
	c.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993,"reason":"enough"}}`)
	if cause := receive(t, "the context's end", f.causes); cause != rejoin.ErrCancelled {
		t.Fatalf("the tool's context ended with %v", cause)
	}
	res.primer()
	res.expectBlock("")
	select {
	case cause := <-f.causes:
		t.Fatalf("another call was cancelled: %v", cause)
	default:
	}
	c.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740992}}`)
	other.primer()
	other.expectBlock("")
	close(f.release)
}

// Headers and context values of a tool belong to the HTTP request that carries its call.
func TestRequestValues(t *testing.T) {
	f := newFixture(t, rejoin.Config{Principal: Principal}, nil)
	c := (&client{t: t, url: f.url, headers: map[string]string{"X-Trace": "first", "Authorization": "Bearer ann"}}).initialize("2025-11-25")
	c.headers["X-Trace"] = "second"
	if body := c.call("1", "whoami", "").rest(); !strings.Contains(body, `"second second ann"`) {
		t.Fatal(body)
	}
	c.headers["Authorization"] = "Bearer bob"
	if res := c.call("2", "whoami", ""); res.StatusCode != http.StatusNotFound {
		t.Fatalf("another user's call: %s", res.Status)
	}
}

// If a tool gives up a question, the question is withdrawn with the id that the client got.
func TestWithdrawnQuestion(t *testing.T) {
	f := newFixture(t, rejoin.Config{}, nil)
	c := (&client{t: t, url: f.url}).initialize("2025-11-25")
	res := c.call("1", "impatient", "x")
	res.primer()
	q, _ := res.message()
	close(f.release)
	m, _ := res.message()
	if m.Method != "notifications/cancelled" || string(m.Params.RequestID) != string(q.ID) {
		t.Errorf("got %v for %s, want a withdrawal of %s", m, m.Params.RequestID, q.ID)
	}
	close(f.seen)
	res.expect("1 context canceled")
}
