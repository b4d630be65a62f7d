package longcalls

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/sse"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// What clients declare.
const (
	nothing   = `{}`
	declared  = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	answering = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// patience is how long, in virtual time, a response may last.
const patience = 2 * time.Hour

// world is a server whose calls become tasks after a second, and a client of it.
type world struct {
	*testing.T

	sdk     SDK
	c       *rejointest.Client
	addTool func(string)
	caps    string
	number  string // the header X-Number
	last    int
}

// serve begins to serve tools.
func (w *world) serve(cfg rejoin.Config, tools map[string]Tool, around ...func(http.Handler) http.Handler) {
	w.Helper()
	cfg.Eras = rejoin.EraBoth
	if cfg.Policy.TaskAfter == 0 {
		cfg.Policy.TaskAfter = time.Second
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	var app rejoin.App
	app, w.addTool = w.sdk.New(cfg.Logger, tools)
	w.c = rejointest.New(w.T, app, rejointest.Config{Server: cfg, Handler: func(srv *rejoin.Server) http.Handler {
		h := http.Handler(http.HandlerFunc(srv.Serve))
		for _, middleware := range around {
			h = middleware(h)
		}
		return h
	}})
}

// request is a modern request. more is further members of its params.
func (w *world) request(method, name, more string) *http.Request {
	w.last++
	return w.requestWithID(strconv.Itoa(w.last), `"t"`, method, name, more)
}

func (w *world) requestWithID(id, token, method, name, more string) *http.Request {
	w.Helper()
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + w.caps +
		`,"io.modelcontextprotocol/logLevel":"info","progressToken":` + token + `}` + more + `}}`
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "", strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": nil,
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "X-Number": {w.number},
	}
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	return r
}

func (w *world) call(tool string) *http.Request {
	return w.request("tools/call", tool, `,"name":"`+tool+`","arguments":{}`)
}

// message is a part of a JSON-RPC message.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Message, Data, Status string
		Notifications         json.RawMessage
		TaskID                string
		Meta                  map[string]json.RawMessage `json:"_meta"`
	}
	Result task
	Error  *fault
}

// task is a part of a result: of a tool, or one that tells of a task.
type task struct {
	ResultType, TaskID, Status, StatusMessage string
	Content                                   []struct{ Text string }
	Result                                    json.RawMessage
	Error                                     *fault
	InputRequests                             map[string]struct {
		Method string
		Params struct{ Message string }
	}
	RequestState string
	IsError      bool
	Capabilities map[string]json.RawMessage
	raw          json.RawMessage
}

type fault struct {
	Code    int
	Message string
}

// stream reads a response.
type stream struct {
	w      *world
	res    *http.Response
	events *sse.Reader // nil: JSON
}

func (w *world) begin(r *http.Request) *stream {
	w.Helper()
	res := w.c.Do(r)
	s := &stream{w: w, res: res}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		s.events = sse.NewReader(res.Body, 1<<20)
	}
	return s
}

// next returns the next message. False: there is none.
func (s *stream) next() (m message, ok bool) {
	s.w.Helper()
	var data []byte
	if s.events != nil {
		for len(data) == 0 {
			ev, err := s.events.Next()
			if err != nil {
				return m, false
			}
			data = ev.Data
		}
	} else if data, _ = io.ReadAll(s.res.Body); len(data) == 0 {
		return m, false
	}
	var raw struct{ Result json.RawMessage }
	if json.Unmarshal(data, &m) != nil || json.Unmarshal(data, &raw) != nil {
		s.w.Fatalf("not a message: %s", data)
	}
	m.Result.raw = raw.Result
	return m, true
}

// close disconnects the client.
func (s *stream) close() {
	_ = s.res.Body.Close()
	synctest.Wait()
}

// do sends a request and returns the status and the last message of the answer.
func (w *world) do(r *http.Request) (status int, last message) {
	w.Helper()
	s := w.begin(r)
	defer s.res.Body.Close()
	for m, ok := s.next(); ok; m, ok = s.next() {
		last = m
	}
	return s.res.StatusCode, last
}

// result is do for a request that succeeds.
func (w *world) result(r *http.Request) task {
	w.Helper()
	status, m := w.do(r)
	if status != http.StatusOK || m.Error != nil || m.Result.raw == nil {
		w.Fatalf("%d %+v", status, m)
	}
	return m.Result
}

// become calls a tool whose call becomes a task.
func (w *world) become(tool string) (id string) {
	w.Helper()
	return w.made(w.result(w.call(tool)))
}

// made checks that a result is a task.
func (w *world) made(result task) (id string) {
	w.Helper()
	if result.ResultType != "task" || result.TaskID == "" {
		w.Fatalf("not a task: %s", result.raw)
	}
	return result.TaskID
}

// get asks for a task when nothing is going on any more.
func (w *world) get(id string) task {
	w.Helper()
	synctest.Wait()
	return w.result(w.request("tasks/get", id, `,"taskId":"`+id+`"`))
}

func (w *world) cancel(id string) {
	w.Helper()
	w.result(w.request("tasks/cancel", id, `,"taskId":"`+id+`"`))
	synctest.Wait()
}

func (w *world) update(id, answers string) {
	w.Helper()
	w.result(w.request("tasks/update", id, `,"taskId":"`+id+`","inputResponses":`+answers))
	synctest.Wait()
}

// fill is the answer of a user to an elicitation.
func fill(x string) string { return `{"action":"accept","content":{"x":"` + x + `"}}` }

// waitDone waits for the end of a context, as a tool does.
func waitDone(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
