package tasks_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/sse"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// beginWith opens a world with any app. next of its tools is nil.
func beginWith(t *testing.T, app rejoin.App, cfg rejointest.Config) *world {
	t.Helper()
	cfg.Server.Eras = rejoin.EraBoth
	if cfg.Server.Policy.TaskAfter == 0 {
		cfg.Server.Policy.TaskAfter = time.Second
	}
	return &world{Client: kit.New(t, app, cfg), t: t, caps: answering}
}

// rawCall is a request that a raw handler answers.
type rawCall struct {
	http.ResponseWriter

	r    *http.Request
	body string
}

// params returns the members of the params that a tool sees of an earlier round, as JSON.
func (c rawCall) params() (answers, state string) {
	var m struct {
		Params struct {
			InputResponses json.RawMessage `json:"inputResponses"`
			RequestState   json.RawMessage `json:"requestState"`
		} `json:"params"`
	}
	_ = json.Unmarshal([]byte(c.body), &m) // the server has parsed it
	return string(m.Params.InputResponses), string(m.Params.RequestState)
}

// streams begins a stream of events.
func (c rawCall) streams() {
	c.Header().Set("Content-Type", "text/event-stream")
	c.WriteHeader(http.StatusOK)
	c.flush()
}

// puts writes and flushes. The client may have disconnected.
func (c rawCall) puts(text string) {
	_, _ = io.WriteString(c, text)
	c.flush()
}

func (c rawCall) flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

// json answers with a message.
func (c rawCall) json(status int, message string) {
	c.Header().Set("Content-Type", "application/json")
	c.WriteHeader(status)
	c.puts(message)
}

// event is a message in a stream.
func event(message string) string { return "event: message\ndata: " + message + "\n\n" }

// Messages of raw handlers. The server does not look at the id of an answer: there is one request.
const (
	rawDiscover = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` +
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"raw","version":"1"}}}}`
	rawResult = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`
)

// rawProgress is a progress notification.
func rawProgress(message string) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"message":"` + message + `"}}`
}

// rawApp is an app whose modern handler is call, but for server/discover, which it answers with discover.
func rawApp(discover string, call func(rawCall)) rejoin.App {
	return kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := rawCall{w, r, string(body)}
		if r.Header.Get("Mcp-Method") == "server/discover" {
			c.json(http.StatusOK, discover)
			return
		}
		call(c)
	})}
}

// makeTask makes a call a task by waiting, and returns the id.
func (w *world) makeTask() string {
	w.t.Helper()
	result := w.result(w.call())
	require.Equal(w.t, "task", result["resultType"], "%v", result)
	return result["taskId"].(string)
}

// open serves a request without a network: it need not end.
func (w *world) open(r *http.Request) *kit.Response { return kit.Serve(w.Server(), r) }

// message is one message that a client got, decoded.
type message = map[string]any

// read returns the messages that have come in a stream, or the body of JSON.
func read(t *testing.T, w *kit.Response) (all []message) {
	t.Helper()
	synctest.Wait()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.Status == 0 {
		return nil
	}
	body := w.Body.String()
	if w.Head.Get("Content-Type") != "text/event-stream" {
		if body == "" {
			return nil
		}
		return append(all, decode(t, body))
	}
	var split sse.Splitter
	require.NoError(t, split.Write([]byte(body), func(data []byte) { all = append(all, decode(t, string(data))) }))
	require.True(t, split.Between(), body)
	return all
}

func decode(t *testing.T, raw string) (m message) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(raw), &m), raw)
	return m
}

// at returns a member of a member of a message.
func at(m message, path ...string) any {
	var v any = m
	for _, name := range path {
		members, _ := v.(map[string]any)
		v = members[name]
	}
	return v
}

// body returns all of a response.
func body(t *testing.T, w *world, r *http.Request) string {
	t.Helper()
	all, _ := kit.ReadAll(t, w.Do(r))
	return all
}

// requireUnknown requires that the answer is that for a task that never was.
func (w *world) requireUnknown(id string) {
	w.t.Helper()
	status, code := w.refused(w.request("tasks/get", id, `,"taskId":"`+id+`"`))
	require.Equal(w.t, []any{400, -32602.0}, []any{status, code})
}

// requireNothingLeft requires that no task is kept and that the store is empty.
func (w *world) requireNothingLeft() {
	w.t.Helper()
	synctest.Wait()
	now := w.Server().Stats()
	require.Zero(w.t, now.Tasks, "tasks")
	require.Zero(w.t, now.TasksRunning, "running tasks")
	require.Zero(w.t, now.StoredBytes, "bytes in the store")
}

// failure is the code and the data.reason of a failed task.
func failure(task map[string]any) []any {
	return []any{task["status"], at(task, "error", "code"), at(task, "error", "data", "reason")}
}

// strings collects strings of several goroutines.
type texts struct {
	mu  sync.Mutex
	all []string
}

func (l *texts) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, text)
}

func (l *texts) join() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, " ")
}

// configured is a configuration of the client with that of the server.
func configured(cfg rejoin.Config) rejointest.Config { return rejointest.Config{Server: cfg} }

// slowStore is a memory store whose appends wait for release.
type slowStore struct {
	eventstore.Store

	release chan struct{}
}

func (s *slowStore) Unwrap() eventstore.Store { return s.Store }

func (s *slowStore) Log(k eventstore.Key) eventstore.Log { return slowLog{s.Store.Log(k), s} }

type slowLog struct {
	eventstore.Log

	s *slowStore
}

func (l slowLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	<-l.s.release
	return l.Log.Append(ctx, first, events, seal)
}

// logTo is a logger that writes to a log.
func logTo(l *kit.Log) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// listen is a subscriptions/listen. filters are the app's, each with a comma before it.
func (w *world) listen(ids []string, filters string) *http.Request {
	w.t.Helper()
	raw, err := json.Marshal(ids)
	require.NoError(w.t, err)
	return w.request("subscriptions/listen", "", `,"notifications":{"taskIds":`+string(raw)+filters+`}`)
}

// ended reports whether a response has ended, when nothing is going on any more.
func ended(w *kit.Response) bool {
	synctest.Wait()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.Ended
}

// text is the body of a response so far.
func text(w *kit.Response) string {
	synctest.Wait()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.Body.String()
}

// withCancel is a request whose client can disconnect.
func withCancel(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	return r.WithContext(ctx), cancel
}

// requireAnswer requires that a question was answered so. outcome is that of ManualTool.Asks.
func requireAnswer(t *testing.T, want string, outcome <-chan any) {
	t.Helper()
	require.Equal(t, any(want), <-outcome)
}
