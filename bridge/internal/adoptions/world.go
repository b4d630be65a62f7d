package adoptions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/crossing"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// world is processes with servers of the SDK, and a client.
type world struct {
	*testing.T
	*rejointest.Client
	*Processes

	sdk       SDK
	tracker   *crossing.Tracker // of all that the apps get
	processes []*process
	release   chan struct{} // lets one tool return that waits
	causes    chan error    // why contexts of tools ended
	answer    chan struct{} // closed when the user answers the question "later?"
}

// process is a server of the SDK in one process.
type process struct {
	Server

	srv  *rejoin.Server
	link *clustertest.Faulty

	mu     sync.Mutex
	key    string                               // of the last session that was recorded
	script func(clustertest.Call) (fault error) // nil: nothing fails
	last   *rejoin.Session                      // that was opened
	times  int                                  // how often Open was called
	opens  func() error                         // what Open does before it lets the bridge open the session; nil: nothing
}

func newWorld(t *testing.T, sdk SDK) *world {
	t.Helper()
	w := &world{T: t, sdk: sdk, tracker: &crossing.Tracker{}, release: make(chan struct{}), causes: make(chan error, 100), answer: make(chan struct{})}
	var apps []rejoin.App
	for range 3 {
		p := &process{Server: sdk.New(slog.New(slog.DiscardHandler), w.tools())}
		w.processes = append(w.processes, p)
		apps = append(apps, w.tracker.App(p))
	}
	w.Processes = Start(t, nil, apps...)
	for i, p := range w.processes {
		p.srv, p.link = w.Servers[i], w.Links[i]
		p.link.SetScript(p.fault)
	}
	return w
}

// connect opens a session at the first process.
func (w *world) connect(version string) {
	w.Helper()
	w.Client = w.Processes.Connect(w.T, rejointest.Config{Version: version, OnRequest: w.echo})
}

// Open implements rejoin.App. It notes the session.
func (p *process) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	p.mu.Lock()
	p.times++
	opens := p.opens
	p.mu.Unlock()
	if opens != nil && state != nil {
		if err := opens(); err != nil {
			return nil, err
		}
	}
	inner, err := p.App.Open(r, s, state)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = s
	return inner, err
}

func (p *process) fault(c clustertest.Call) clustertest.Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Op == "put" {
		p.key = c.Session
	}
	if p.script == nil {
		return clustertest.Fault{}
	}
	return clustertest.Fault{Before: p.script(c)}
}

func (p *process) setScript(script func(clustertest.Call) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script = script
}

// setOpens says what Open does at an adoption.
func (p *process) setOpens(opens func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opens = opens
}

// opened is how often Open was called.
func (p *process) opened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times
}

// sessionID is the id of the client's session.
func (w *world) sessionID() string {
	w.processes[0].mu.Lock()
	defer w.processes[0].mu.Unlock()
	return w.processes[0].last.ID()
}

// saved is what the app has saved of the last session.
func (p *process) saved() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.last.SavedState())
}

// forget lets go of the last session.
func (p *process) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = nil
}

// recorded is what the engine has of it.
func (w *world) recorded() string {
	w.Helper()
	found, err := w.Engine.Find(context.Background(), w.processes[0].key, cluster.Process{})
	if err != nil {
		w.Fatal(err)
	}
	return string(found.Record.State)
}

// use sends the client's requests to a process from now on.
func (w *world) use(n int) *process {
	w.Use(n)
	return w.processes[n]
}

// same fails the test if got is not want.
func (w *world) same(what string, got, want any) {
	w.Helper()
	a, _ := json.Marshal(got)  //nolint:errchkjson // values of the tests
	b, _ := json.Marshal(want) //nolint:errchkjson // values of the tests
	if string(a) != string(b) {
		w.Fatalf("%s:\n got %s\nwant %s", what, a, b)
	}
}

// tools are those of each server.
func (w *world) tools() map[string]Tool {
	wait := func(ctx context.Context) {
		select {
		case <-w.release:
		case <-ctx.Done():
			w.causes <- context.Cause(ctx)
		}
	}
	return map[string]Tool{
		"look":  look,
		"quick": func(context.Context, Call) (string, error) { return "done", nil },
		"wait": func(ctx context.Context, c Call) (string, error) {
			err := c.Log("emergency", "waits")
			wait(ctx)
			return "waited", err
		},
		"away": func(ctx context.Context, c Call) (string, error) {
			err := c.Close()
			wait(ctx)
			return "returned", err
		},
		"slow": func(ctx context.Context, c Call) (string, error) {
			err := errors.Join(rejoin.HandleFromContext(ctx).SetPolicy(rejoin.Policy{CloseAfter: Lease}), c.Log("emergency", "slow"))
			wait(ctx)
			return "returned", err
		},
		"ask": func(_ context.Context, c Call) (string, error) { return c.Elicit("later?") },
	}
}

// look does all that a tool can do, and returns what it has learned.
func look(_ context.Context, c Call) (string, error) {
	for _, level := range []string{"info", "warning", "error"} {
		if err := c.Log(level, level); err != nil {
			return "", err
		}
	}
	learned := []string{c.Client()}
	for _, ask := range []func() (string, error){
		func() (string, error) { return c.Elicit("elicited") }, func() (string, error) { return c.Sample("sampled") }, c.Roots,
	} {
		answer, err := ask()
		if err != nil {
			return "", err
		}
		learned = append(learned, answer)
	}
	return strings.Join(learned, " "), nil
}

// echo answers a request of the server.
func (w *world) echo(method string, params json.RawMessage) (any, error) {
	var p struct {
		Message  string `json:"message"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
	}
	if p.Message == "later?" {
		<-w.answer
	}
	switch {
	case method == "elicitation/create":
		return map[string]any{"action": "accept", "content": map[string]string{"echo": p.Message}}, nil
	case method == "sampling/createMessage" && len(p.Messages) == 1:
		return map[string]any{"role": "assistant", "model": "m", "content": p.Messages[0].Content}, nil
	case method == "roots/list":
		return map[string]any{"roots": []map[string]string{{"uri": "file:///root"}}}, nil
	}
	return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "%s", method)
}

// summary is a message in short: the last part of the method, and its text.
func summary(raw json.RawMessage) string {
	var m struct {
		Method string `json:"method"`
		Params struct {
			Message string `json:"message"`
			Data    any    `json:"data"`
			URI     string `json:"uri"`
		} `json:"params"`
		Result struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
		Error *struct {
			Data struct {
				Reason string `json:"reason"`
			} `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return err.Error()
	}
	parts := []string{m.Method[strings.LastIndex(m.Method, "/")+1:], m.Params.Message, m.Params.URI}
	if m.Params.Data != nil {
		parts = append(parts, fmt.Sprint(m.Params.Data))
	}
	switch {
	case m.Error != nil:
		parts = []string{"error", m.Error.Data.Reason}
	case m.Method == "":
		parts = []string{"result"}
		for _, c := range m.Result.Content {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

func summaries(c *rejointest.Call) []string {
	all := []string{}
	for _, m := range c.Messages() {
		all = append(all, summary(m))
	}
	return all
}

// look calls the tool of that name, and expects that it can do all that it could do at the owner.
func (w *world) look(version string, levels ...string) {
	w.Helper()
	call := w.CallTool("look", nil)
	call.Result()
	want := []string{}
	for _, level := range levels {
		want = append(want, "message "+level)
	}
	want = append(want, "create elicited", "createMessage", "list", "result rejointest "+version+" elicited sampled file:///root")
	w.same("look", summaries(call), want)
}

// subscribe sends resources/subscribe or resources/unsubscribe.
func (w *world) subscribe(method, uri string) *rejointest.Call {
	w.Helper()
	return w.Start("resources/"+method, map[string]string{"uri": uri})
}

func (w *world) setLevel(level string) *rejointest.Call {
	w.Helper()
	return w.Start("logging/setLevel", map[string]string{"level": level})
}

// reason is the data.reason of an error.
func reason(e *rejoin.Error) string {
	var data struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(e.Data, &data) // "" then
	return data.Reason
}

// raw sends a message in a session that may be another than the client's; "": none.
func (w *world) raw(session, body string) (status int, text string, head http.Header) {
	w.Helper()
	return w.send(http.MethodPost, session, body)
}

// delete ends such a session.
func (w *world) delete(session string) {
	w.Helper()
	if status, text, _ := w.send(http.MethodDelete, session, ""); status != http.StatusNoContent {
		w.Fatal(status, text)
	}
}

func (w *world) send(method, session, body string) (status int, text string, head http.Header) {
	w.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "/mcp", strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	r.URL.Path, r.Host = "", ""
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Session-Id": {session}, "Mcp-Protocol-Version": {"2025-11-25"},
	}
	if session == "" {
		r.Header["Mcp-Session-Id"], r.Header["Mcp-Protocol-Version"] = nil, nil
	}
	res := w.Do(r)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"raw","version":"7"}}}`

// open opens another session, of a client that has not sent initialized.
func (w *world) open() (session string) {
	w.Helper()
	status, text, head := w.raw("", initialize)
	if session = head.Get("Mcp-Session-Id"); status != http.StatusOK || session == "" {
		w.Fatal(status, text)
	}
	return session
}
