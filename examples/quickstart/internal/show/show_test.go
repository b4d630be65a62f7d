package show

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/examples/quickstart/internal/servetest"
)

// These tests use real sockets and the real clock, because that is what the command promises. They wait for what happens; the
// deadline is that of the test binary.

func mount(path string, srv *rejoin.Server) http.Handler {
	mux := http.NewServeMux()
	stdadapter.Register(mux, path, srv)
	return mux
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	others := &Others{Names: []string{"one", "another"}, Run: func(_ context.Context, router string, args []string, stdout, _ io.Writer) int {
		fmt.Fprint(stdout, router, args)
		return 7
	}}
	return Run(ctx, args, stdout, stderr, mount, others)
}

func TestDemo(t *testing.T) {
	timeline := requireTimeline(t, nil, map[string]int{
		`→ POST initialize$`:                          1,
		`→ POST tools/call long_job, 10 steps$`:       1,
		`← 200 text/event-stream$`:                    4,
		`← primed, retry 450ms +\S+\.\S+$`:            4, // each connection
		`← closed by the server, retry \d+ms$`:        3,
		`waiting \d+ms with no connection$`:           3,
		`→ GET, Last-Event-ID +\S+\.[369]$`:           3, // what was seen last before each close
		`← progress +\d+/10  (live|replayed) +\S+\.`:  10,
		`← result: 10 steps done +\S+\.11$`:           1,
		`→ DELETE, session ended$`:                    1,
		`^11 messages over 4 connections: each came `: 1,
	})
	// The number depends on the machine, because the tool works at its own pace. But the tool makes two steps before a client is due.
	away := strings.Count(timeline, "while nobody was connected")
	if replayed := strings.Count(timeline, "replayed"); away == 0 || replayed != away {
		t.Errorf("%d steps were made while nobody was connected, %d were replayed; want the same, not 0", away, replayed)
	}
}

func TestDemoOfATask(t *testing.T) {
	timeline := requireTimeline(t, []string{"-era", "modern"}, map[string]int{
		`→ POST server/discover$`:                                      1,
		`← 200, the server has tasks$`:                                 1,
		`→ POST tools/call long_job, 10 steps$`:                        1,
		`← 200 text/event-stream$`:                                     1,
		`← progress +[123]/10  live$`:                                  3,
		`← a task in place of the result, poll after 450ms +\S+\.\S+$`: 1,
		`← completed: 10 of 10 +\S+\.\S+$`:                             1,
		`← result: 10 steps done$`:                                     1,
	})
	// How many there are of these depends on the machine, because the tool works at its own pace.
	polls := strings.Count(timeline, "→ POST tasks/get")
	if waits := strings.Count(timeline, "waiting 450ms with no connection"); polls < 2 || waits != polls {
		t.Errorf("%d polls and %d waits, want the same, at least 2", polls, waits)
	}
	if working := len(regexp.MustCompile(`(?m)← working: \d+ of 10 +\S+\.\S+$`).FindAllString(timeline, -1)); working != polls-1 {
		t.Errorf("%d polls found the task working, want %d", working, polls-1)
	}
	if !strings.Contains(timeline, "while nobody was connected") {
		t.Error("the tool has not worked while nobody was connected")
	}
	summary := fmt.Sprintf("%d messages on the connection of the call, then %d polls of its task", strings.Count(timeline, "live\n"), polls)
	if !strings.Contains(timeline, summary) {
		t.Errorf("the last line does not say %q", summary)
	}
}

// requireTimeline runs the demo, requires that each pattern matches a number of lines, and returns what was printed.
func requireTimeline(t *testing.T, args []string, want map[string]int) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, &stdout, &stderr)
	}
	timeline := stdout.String()
	t.Log("\n" + timeline)
	for pattern, times := range want {
		if n := len(regexp.MustCompile(`(?m)`+pattern).FindAllString(timeline, -1)); n != times {
			t.Errorf("%q is there %d times, want %d", pattern, n, times)
		}
	}
	for line := range strings.Lines(timeline) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
			t.Errorf("a line of %d columns, want at most 100: %s", n, line)
		}
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr: %s", &stderr)
	}
	return timeline
}

func TestExitCodes(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		args []string
		code int
		says string
	}{
		{"an end before the start", over, nil, 1, "quickstart: .*context canceled"},
		{"an address that is none", t.Context(), []string{"-serve", "-addr", "nowhere"}, 1, "quickstart: listen tcp"},
		{"an unknown flag", t.Context(), []string{"-x"}, 2, "not defined: -x"},
		{"an argument", t.Context(), []string{"x"}, 2, `unexpected argument "x"`},
		{"an unknown router", t.Context(), []string{"-router", "x"}, 2, `unknown router "x"; there is another, one, stdlib`},
		{"an unknown era", t.Context(), []string{"-era", "x"}, 2, `unknown era "x"; there is legacy, modern`},
		{"help", t.Context(), []string{"-h"}, 0, "-serve"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(tt.ctx, tt.args, io.Discard, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if !regexp.MustCompile(tt.says).MatchString(stderr.String()) {
				t.Errorf("stderr does not say %q: %s", tt.says, &stderr)
			}
		})
	}
}

// The client finds out if a server has lost an event, although its streams end properly.
func TestClientFindsGap(t *testing.T) {
	event := func(seq int, data string) string { return fmt.Sprintf("id: s.%d\ndata: %s\n\n", seq, data) }
	progress := func(n int) string {
		return event(n, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d,"total":3}}`, n))
	}
	polls := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodGet:
			polls++
			if cursor := r.Header.Get("Last-Event-ID"); cursor != "s.1" {
				t.Errorf("polled with cursor %q, want that of the last event", cursor)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, progress(3), event(4, `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`))
		case bytes.Contains(body, []byte("tools/call")):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, progress(1), "retry: 1\n\n")
		default:
			w.Header().Set("Mcp-Session-Id", "session")
		}
	}))
	defer web.Close()
	c := &client{url: web.URL, see: newTimeline(io.Discard, "", "")}
	got, err := c.run(t.Context(), 3)
	if err != nil || polls != 1 {
		t.Fatalf("error %v, %d polls, want none and 1", err, polls)
	}
	if err := check(got, 3); err == nil || err.Error() != "progress 2 never came" {
		t.Errorf("check says %v, want that progress 2 never came", err)
	}
}

// Another router is the task of another program.
func TestOthers(t *testing.T) {
	for want, args := range map[string][]string{
		"one[-serve=false -addr 127.0.0.1:8080 -era modern]": {"-router", "one", "-era", "modern"},
		"another[-serve=true -addr x:1 -era legacy]":         {"-addr", "x:1", "-serve", "-router=another"},
	} {
		var stdout bytes.Buffer
		if code := run(t.Context(), args, &stdout, io.Discard); code != 7 || stdout.String() != want {
			t.Errorf("exit code %d, %q, want 7, %q", code, &stdout, want)
		}
	}
	if code := Run(t.Context(), []string{"-router", "one"}, io.Discard, io.Discard, mount, nil); code != 2 {
		t.Errorf("exit code %d without others, want 2", code)
	}
}

func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := servetest.Start(t, func(stdout, stderr io.Writer) int {
		return run(ctx, []string{"-serve", "-router", "stdlib", "-addr", "127.0.0.1:0"}, stdout, stderr)
	})

	c := &client{url: server.URL}
	post := func(body string, result any) {
		t.Helper()
		res, err := c.do(t.Context(), http.MethodPost, body)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if c.session == "" {
			c.session = res.Header.Get("Mcp-Session-Id")
		}
		answer := struct {
			Result any `json:"result"`
		}{result}
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
	}
	var opened struct{ ProtocolVersion string }
	post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
		`"clientInfo":{"name":"test","version":"1"}}}`, &opened)
	if opened.ProtocolVersion != "2025-11-25" || c.session == "" {
		t.Errorf("version %q, session %q", opened.ProtocolVersion, c.session)
	}
	var list struct {
		Tools []struct {
			Name        string
			InputSchema struct {
				Type       string
				Properties map[string]struct{ Type string }
			}
		}
	}
	post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, &list)
	if len(list.Tools) != 1 || list.Tools[0].Name != "long_job" {
		t.Fatalf("tools: %+v", list.Tools)
	}
	if schema := list.Tools[0].InputSchema; schema.Type != "object" || schema.Properties["steps"].Type != "integer" {
		t.Errorf("input schema: %+v", schema)
	}
	var refused struct {
		IsError bool
		Content []struct{ Text string }
	}
	post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"long_job","arguments":{"steps":0}}}`, &refused)
	if !refused.IsError || len(refused.Content) != 1 {
		t.Errorf("a call with bad arguments: %+v", refused)
	}

	cancel()
	if text := server.Wait(t); !strings.Contains(text, "curl ") || !strings.Contains(text, "inspector") || !strings.Contains(text, "ending") {
		t.Errorf("printed: %s", text)
	}
	if res, err := http.Get(server.URL); err == nil {
		res.Body.Close()
		t.Error("it still serves after its end")
	}
}
