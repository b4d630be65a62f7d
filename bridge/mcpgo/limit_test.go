package mcpgo

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/adoptions"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// logBuffer keeps what a logger writes.
type logBuffer struct{ list[string] }

func (b *logBuffer) Write(p []byte) (int, error) {
	b.add(string(p))
	return len(p), nil
}

func (b *logBuffer) count(part string) (n int) {
	for _, line := range b.got() {
		n += strings.Count(line, part)
	}
	return n
}

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// heap returns the bytes in use after a collection.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// allocated returns how many bytes f and the goroutines that it starts allocate. Unlike time, that does not depend on other load.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	synctest.Wait()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// openSession opens a session and returns its id.
func openSession(t *testing.T, srv *rejoin.Server, version, capabilities string) string {
	t.Helper()
	w := exchange(srv, "POST", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+
		`","capabilities":`+capabilities+`,"clientInfo":{"name":"raw","version":"7"}}}`)
	id := w.Header().Get("Mcp-Session-Id")
	if id == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	synctest.Wait()
	return id
}

// withHeader sends a body with a number of additional header fields.
func withHeader(srv *rejoin.Server, session, body string, fields int) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {session}}
	for i := range fields {
		r.Header["X"+strconv.Itoa(i)] = []string{"1"}
	}
	srv.Serve(w, r)
	return w
}

// A handler blocks, and its client sends more notifications than may wait. Those with room are handled later, one by one and in order, and the
// session continues.
func TestNotificationsWaitInOrderAndWithinBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMCP(&server.Hooks{}, map[string]handler{"x": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) { return "x", nil }})
		release := make(chan struct{})
		got := &list[string]{}
		s.AddNotificationHandler("notifications/n", func(_ context.Context, n mcp.JSONRPCNotification) {
			got.add(fmt.Sprint(n.Params.AdditionalFields["n"]))
			<-release
		})
		var logged logBuffer
		srv := newServer(t, New(s), rejoin.Config{Logger: logged.logger()})
		id := openSession(t, srv, "2025-11-25", "{}")
		send := func(n int, more string) {
			exchange(srv, "POST", id, `{"jsonrpc":"2.0","method":"notifications/n","params":{"n":"`+strconv.Itoa(n)+`"`+more+`}}`)
		}
		send(0, "")
		synctest.Wait()
		goroutines, held := runtime.NumGoroutine(), heap()
		const most = 3 * bounds.Notes
		for n := range most {
			send(n+1, "")
		}
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > goroutines+2 {
			t.Errorf("%d notifications run in %d goroutines", most, n-goroutines)
		}
		if grown := heap() - held; grown > 2<<20 {
			t.Errorf("the heap has grown by %d KiB", grown>>10)
		}
		answer := exchange(srv, "POST", id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`).Body.String()
		same(t, "a call beside them", strings.Contains(answer, `"text":"x"`), true)
		close(release)
		synctest.Wait()
		want := []string{}
		for n := range bounds.Notes + 1 {
			want = append(want, strconv.Itoa(n))
		}
		same(t, "what was handled", got.got(), want)
		same(t, "warnings", logged.count("are dropped"), 1)

		for n := range bounds.Notes + 100 { // one at a time, there is always room
			send(n, "")
			synctest.Wait()
		}
		same(t, "handled later", len(got.got()), 2*bounds.Notes+101)
	})
}

// The bound of waiting notifications counts the bytes of notifications and of their headers.
func TestNotificationsThatWaitAreBoundedInBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMCP(&server.Hooks{}, nil)
		release := make(chan struct{})
		handled := &list[int]{}
		s.AddNotificationHandler("notifications/n", func(context.Context, mcp.JSONRPCNotification) {
			<-release
			handled.add(1)
		})
		srv := newServer(t, New(s), rejoin.Config{})
		const plain = `{"jsonrpc":"2.0","method":"notifications/n"}`
		for name, send := range map[string]func(id string){
			"large ones": func(id string) {
				exchange(srv, "POST", id, `{"jsonrpc":"2.0","method":"notifications/n","params":{"x":"`+strings.Repeat("x", 1<<20)+`"}}`)
			},
			"with white space": func(id string) { exchange(srv, "POST", id, plain+strings.Repeat(" ", 1<<20)) },
			"large headers":    func(id string) { withHeader(srv, id, plain, 1500) },
		} {
			id := openSession(t, srv, "2025-11-25", "{}")
			held := heap()
			for range 100 {
				send(id)
			}
			synctest.Wait()
			if grown := heap() - held; grown > 10<<20 {
				t.Errorf("%s: the heap has grown by %d KiB", name, grown>>10)
			} else {
				t.Logf("%s: %d KiB", name, grown>>10)
			}
			exchange(srv, "DELETE", id, "")
			synctest.Wait()
			if grown := heap() - held; grown > 4<<20 { // all but the one whose handler blocks
				t.Errorf("%s: the heap has grown by %d KiB after the session's end", name, grown>>10)
			}
		}
		close(release)
		synctest.Wait()
		same(t, "handled", len(handled.got()), 3)
	})
}

// If a session ends while its client sends notifications, the waiting ones are dropped, and no goroutine is left.
func TestNotificationsCrossTheEndOfTheirSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMCP(&server.Hooks{}, nil)
		s.AddNotificationHandler("notifications/n", func(context.Context, mcp.JSONRPCNotification) { runtime.Gosched() })
		srv := newServer(t, New(s), rejoin.Config{})
		before := adoptions.BubbleGoroutines()
		for range 200 {
			id := openSession(t, srv, "2025-11-25", "{}")
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 8 {
						exchange(srv, "POST", id, `{"jsonrpc":"2.0","method":"notifications/n"}`)
					}
				})
			}
			all.Go(func() { exchange(srv, "DELETE", id, "") })
			all.Wait()
		}
		if n := adoptions.BubbleGoroutines(); n > before {
			t.Errorf("%d goroutines, before there were %d", n, before)
		}
	})
}

// However a handler ends, the next notification is handled.
func TestANotificationsHandlerThatDoesNotReturn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMCP(&server.Hooks{}, nil)
		got := &list[string]{}
		s.AddNotificationHandler("notifications/n", func(_ context.Context, n mcp.JSONRPCNotification) {
			how, _ := n.Params.AdditionalFields["how"].(string)
			got.add(how)
			switch how {
			case "panic":
				panic("no")
			case "exit":
				runtime.Goexit()
			}
		})
		srv := newServer(t, New(s), rejoin.Config{})
		id := openSession(t, srv, "2025-03-26", "{}")
		want, batch := []string{}, []string{}
		for range 10 {
			for _, how := range []string{"return", "panic", "exit"} {
				want = append(want, how)
				batch = append(batch, `{"jsonrpc":"2.0","method":"notifications/n","params":{"how":"`+how+`"}}`)
			}
		}
		exchange(srv, "POST", id, "["+strings.Join(batch, ",")+"]")
		synctest.Wait()
		same(t, "handled", got.got(), want)
	})
}

// The header of an HTTP request is copied only for handlers that look it up.
func TestABatchCopiesNoHeaderForItsNotifications(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMCP(&server.Hooks{}, nil)
		s.AddNotificationHandler("notifications/n", func(context.Context, mcp.JSONRPCNotification) {})
		srv := newServer(t, New(s), rejoin.Config{})
		id := openSession(t, srv, "2025-03-26", "{}")
		const note = `{"jsonrpc":"2.0","method":"notifications/n"}`
		batch := "[" + strings.Repeat(note+",", 63) + note + "]"
		measure := func(fields int) int {
			return allocated(func() { withHeader(srv, id, batch, fields) }) - allocated(func() { withHeader(srv, id, note, fields) })
		}
		measure(0)
		small, large := measure(10), measure(1000)
		t.Logf("64 notifications allocate %d KiB, with a hundred times the header %d KiB", small>>10, large>>10)
		if large > 2*small {
			t.Errorf("64 notifications allocate %d KiB, with a hundred times the header %d KiB", small>>10, large>>10)
		}
	})
}

// Cancelled calls whose tools go on are bounded by rejoin. The refusal names the limit, and pings are answered.
func TestCancelledCallsThatRunOnCountAgainstMaxConcurrent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newMCP(&server.Hooks{}, map[string]handler{"stubborn": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) {
			<-release
			return "x", nil
		}})
		c := rejointest.New(t, New(s), rejointest.Config{Server: rejoin.Config{MaxConcurrent: 4}})
		before := runtime.NumGoroutine()
		refused := 0
		for range 5 * 16 {
			call := c.CallTool("stubborn", nil)
			synctest.Wait()
			if len(call.Messages()) == 0 && !strings.Contains(call.String(), "429") {
				call.Cancel("enough")
				continue
			}
			if err := call.Err(); !strings.Contains(err.Message, "Config.MaxConcurrent") {
				t.Fatal(err)
			}
			refused++
		}
		same(t, "refused", refused, 4*16)
		if n := runtime.NumGoroutine() - before; n > 16+64 {
			t.Errorf("%d goroutines", n)
		}
		c.Start("ping", nil).Result()
		close(release)
		synctest.Wait()
		c.CallTool("stubborn", nil).Result()
	})
}

// The number and the size of subscriptions are bounded. Beyond the bound a call is refused with the reason, until the client unsubscribes from one.
// The cost of a subscription does not depend on their number.
func TestSubscriptionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		recording := &recordingApp{App: New(newMCP(&server.Hooks{}, nil))}
		srv := newServer(t, recording, rejoin.Config{})
		id := openSession(t, srv, "2025-11-25", "{}")
		ask := func(method, uri string) string {
			return exchange(srv, "POST", id, `{"jsonrpc":"2.0","id":1,"method":"resources/`+method+`","params":{"uri":"`+uri+`"}}`).Body.String()
		}
		const ok, many, long = `{"jsonrpc":"2.0","id":1,"result":{}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"` + bounds.TooManyURIs + `"}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"` + bounds.LongURI + `"}}`
		uri := func(n int) string { return strings.Repeat("x", bounds.URIBytes-10) + strconv.Itoa(n) }
		costs := []int{}
		for from := 0; from < bounds.URIs; from += 100 {
			costs = append(costs, allocated(func() {
				for n := range 100 {
					same(t, "subscribe", ask("subscribe", uri(from+n)), ok)
				}
			}))
		}
		t.Logf("a hundred cost %d bytes", costs)
		if costs[len(costs)-1] > 3*costs[0] {
			t.Errorf("a hundred cost %d bytes", costs)
		}
		held := heap()
		for n := range bounds.URIs {
			same(t, "one more", ask("subscribe", uri(bounds.URIs+n)), many)
		}
		if grown := heap() - held; grown > 1<<20 {
			t.Errorf("the heap has grown by %d KiB", grown>>10)
		}
		same(t, "one again", ask("subscribe", uri(0)), ok)
		same(t, "a long one", ask("subscribe", strings.Repeat("x", bounds.URIBytes+1)), long)
		same(t, "unsubscribe", ask("unsubscribe", uri(3)), ok)
		same(t, "in its place", ask("subscribe", "other"), ok)
		same(t, "one more", ask("subscribe", uri(3)), many)
		same(t, "what another process would get", strings.Count(string(recording.last.session.SavedState()), "xxx"+strconv.Itoa(7)+`"`), 1)
	})
}

// The cost of a change does not depend on the size of the state.
func TestAChangeCostsWhatItChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := newServer(t, New(newMCP(&server.Hooks{}, nil)), rejoin.Config{})
		measure := func(capabilities string) int {
			id := openSession(t, srv, "2025-11-25", capabilities)
			change := func() {
				for i := range 20 {
					level := []string{"debug", "error"}[i%2]
					exchange(srv, "POST", id, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"`+level+`"}}`)
					exchange(srv, "POST", id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				}
			}
			change()
			return allocated(change)
		}
		small, large := measure("{}"), measure(`{"experimental":{"x":{"y":"`+strings.Repeat("x", 7<<10)+`"}}}`)
		t.Logf("changes cost %d bytes, of a large state %d", small, large)
		if large > small*3/2 {
			t.Errorf("changes cost %d bytes, of a large state %d", small, large)
		}
	})
}

// An idle session keeps little of a large initialize, whatever it consists of.
func TestIdleSessionsKeepLittleOfInitialize(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := newServer(t, New(newMCP(&server.Hooks{}, nil)), rejoin.Config{})
		fill := func(part string, size int) string { return strings.Repeat(part+",", size/(len(part)+1)) + part }
		measure := func(capabilities string) int {
			t.Helper()
			const n = 20
			before := heap()
			for range n {
				openSession(t, srv, "2025-11-25", capabilities)
			}
			kept := (heap() - before) / n
			runtime.KeepAlive(capabilities)
			return kept
		}
		measure("{}")
		honest := measure(`{"elicitation":{},"roots":{"listChanged":true},"sampling":{}}`)
		worst := 0
		for _, size := range []int{bounds.OpeningBytes - 300, 60 << 10} {
			for _, part := range []string{`{}`, `[]`, `0`, `""`, `{"a":{}}`, `[[]]`} {
				kept := measure(`{"sampling":{},"experimental":{"x":[` + fill(part, size) + `]}}`)
				t.Logf("%d bytes of %s: %d bytes, %.1f times", size, part, kept, float64(kept)/float64(honest))
				worst = max(worst, kept)
			}
		}
		for _, part := range []string{`{}`, `{"src":"a"}`} {
			const n = 20
			before := heap()
			for range n {
				w := exchange(srv, "POST", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
					`"clientInfo":{"name":"raw","version":"7","icons":[`+fill(part, 7<<10)+`]}}}`)
				same(t, "initialize", w.Code, 200)
			}
			kept := (heap() - before) / n
			t.Logf("icons of %s: %d bytes, %.1f times", part, kept, float64(kept)/float64(honest))
			worst = max(worst, kept)
		}
		if worst > 64<<10 {
			t.Errorf("an idle session keeps %d bytes; an honest one %d", worst, honest)
		}
		id := openSession(t, srv, "2025-11-25", `{"sampling":{},"experimental":{"x":"`+strings.Repeat("x", 60<<10)+`"}}`)
		w := exchange(srv, "POST", id, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		same(t, "a session of a large initialize", w.Body.String(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}
