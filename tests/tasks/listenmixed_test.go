package tasks_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func bodyOf(t *testing.T, r *http.Request) []byte {
	t.Helper()
	raw, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return raw
}

// replaced is a request with another body.
func replaced(r *http.Request, body string) *http.Request {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader([]byte(body))), int64(len(body))
	return r
}

const (
	appAck    = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2},"notifications":{"toolsListChanged":true}}}`
	appChange = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}`
)

// listening is an app whose tools are those of next, and whose subscriptions are served by listen.
func listening(t *testing.T, listen func(rawCall)) (*world, func() *kit.ManualTool) {
	t.Helper()
	tools, next := kit.ManualTools()
	modern := tools.(rejoin.ModernApp).Modern()
	app := kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") != "subscriptions/listen" {
			modern.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		listen(rawCall{w, r, string(body)})
	})}
	return beginWith(t, app, configured(rejoin.Config{KeepAlive: -1})), next
}

// makeToolTask is world.task for such an app.
func (w *world) makeToolTask(next func() *kit.ManualTool) (string, *kit.ManualTool) {
	w.t.Helper()
	return w.makeTask(), next()
}

// With filters of the app's own beside, the app acknowledges, and the tasks are added to that. Its notifications go on in whatever pieces it
// writes them, and those of the tasks come between.
func TestAListenerOfTheAppToo(t *testing.T) {
	for name, pieces := range map[string]func(string) []string{
		"at once":         func(s string) []string { return []string{s} },
		"byte by byte":    func(s string) []string { return strings.Split(s, "") },
		"in odd pieces":   func(s string) []string { return []string{s[:7], s[7 : len(s)-1], s[len(s)-1:]} },
		"with CR":         func(s string) []string { return strings.SplitAfter(strings.ReplaceAll(s, "\n", "\r\n"), "\r") },
		"after a comment": func(s string) []string { return []string{": hello\n\n: more", "\n\n" + s} },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, next := listening(t, func(c rawCall) {
					c.streams()
					for _, piece := range pieces(event(appAck)) {
						c.puts(piece)
					}
					for range 3 {
						kit.Elapse(10 * time.Second)
						for _, piece := range pieces(event(appChange)) {
							c.puts(piece)
							kit.Elapse(time.Second / 100)
						}
					}
					<-c.r.Context().Done()
					c.puts(event(`{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete"}}`))
				})
				id, tool := w.makeToolTask(next)
				res := w.open(w.listen([]string{id, "x"}, `,"toolsListChanged":true`))
				kit.Elapse(time.Millisecond)
				all := read(t, res)
				require.Equal(t, map[string]any{"toolsListChanged": true, "taskIds": []any{id}}, at(all[0], "params", "notifications"))
				require.Equal(t, "notifications/subscriptions/acknowledged", all[0]["method"])
				require.Len(t, all, 2, "the present state follows")
				for i := range 200 {
					require.NoError(t, tool.Progress(float64(i), 0, ""))
					kit.Elapse(time.Second / 4)
				}
				tool.Returns(map[string]any{"content": []any{}})
				kit.Drain(t, w.Server(), 0)
				changes, last := 0, -1.0
				all = read(t, res)
				for _, m := range all[1 : len(all)-1] {
					switch m["method"] {
					case "notifications/tools/list_changed":
						changes++
					default:
						require.Equal(t, "notifications/tasks", m["method"])
					}
				}
				require.Equal(t, 3, changes)
				require.Negative(t, last)
				require.Equal(t, "completed", at(all[len(all)-2], "params", "status"))
				require.Contains(t, all[len(all)-1], "result")
				require.True(t, ended(res))
			})
		})
	}
}

// An app that does not acknowledge is left alone: what it answers goes on as it is, and no state of a task is sent.
func TestAListenerThatTheAppDoesNotAcknowledge(t *testing.T) {
	refusal := `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}`
	for name, test := range map[string]struct {
		do     func(rawCall)
		status int
		want   string
	}{
		"refused":             {func(c rawCall) { c.json(404, refusal) }, 404, refusal},
		"refused in a stream": {func(c rawCall) { c.streams(); c.puts(event(refusal)); kit.Elapse(time.Minute) }, 200, event(refusal)},
		"not answered":        {func(rawCall) { kit.Elapse(time.Minute) }, 200, ""},
		"something before it": {func(c rawCall) {
			c.streams()
			c.puts(event(appChange))
			kit.Elapse(time.Minute)
			c.puts(event(`{"x":1}`))
		}, 200, event(appChange) + event(`{"x":1}`)},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, next := listening(t, test.do)
				id, tool := w.makeToolTask(next)
				res := w.open(w.listen([]string{id}, `,"toolsListChanged":true`))
				require.NoError(t, tool.Progress(1, 2, ""))
				kit.Elapse(time.Hour / 10)
				require.Equal(t, test.want, text(res))
				require.Equal(t, test.status, res.Status)
				require.True(t, ended(res))
				tool.Returns(map[string]any{"content": []any{}})
				require.Equal(t, &rejoin.DrainError{Unfetched: 1}, <-kit.Drain(t, w.Server(), time.Second))
			})
		})
	}
}

// Without tasks in it a subscription is the app's alone, byte for byte.
func TestAListenerOfTheAppAlone(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const odd = ": hello\n\nid: 1\ndata: {\"x\":1}\n\nretry: 5\n\n"
		w, _ := listening(t, func(c rawCall) {
			c.streams()
			c.puts(odd)
		})
		r := w.request("subscriptions/listen", "", `,"notifications":{"toolsListChanged":true}`)
		require.Equal(t, odd, body(t, w, r))
	})
}
