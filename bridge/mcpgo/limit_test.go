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
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// lines is a log.
type lines struct{ list[string] }

func (l *lines) Write(p []byte) (int, error) {
	l.add(string(p))
	return len(p), nil
}

func (l *lines) count(part string) (n int) {
	for _, line := range l.got() {
		n += strings.Count(line, part)
	}
	return n
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// heap is what is in use after a collection.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// allocated is how many bytes a function and what it starts allocate: a measure of their work that no other load changes.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	synctest.Wait()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// opened opens a session with what the client says of itself in initialize.
func opened(t *testing.T, srv *rejoin.Server, version, capabilities string) string {
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

// withHeader sends a body with so many fields beside the usual ones.
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

// A handler is stuck, and a client sends a hundred times what may wait. What has room is handled in the end, one after the other in order, and
// the session goes on.
func TestNotificationsWaitInOrderAndWithinBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMCP(&server.Hooks{}, map[string]handler{"x": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) { return "x", nil }})
		release := make(chan struct{})
		got := &list[string]{}
		s.AddNotificationHandler("notifications/n", func(_ context.Context, n mcp.JSONRPCNotification) {
			got.add(fmt.Sprint(n.Params.AdditionalFields["n"]))
			<-release
		})
		var logged lines
		srv := newServer(t, New(s), rejoin.Config{Logger: logged.logger()})
		id := opened(t, srv, "2025-11-25", "{}")
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
		same(t, "a call beside them", strings.Contains(exchange(srv, "POST", id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`).Body.String(), `"text":"x"`), true)
		close(release)
		synctest.Wait()
		want := []string{}
		for n := range bounds.Notes + 1 {
			want = append(want, strconv.Itoa(n))
		}
		same(t, "what was handled", got.got(), want)
		same(t, "warnings", logged.count("are dropped"), 1)

		for n := range bounds.Notes + 100 { // one at a time there is always room
			send(n, "")
			synctest.Wait()
		}
		same(t, "handled later", len(got.got()), 2*bounds.Notes+101)
	})
}

// Large ones, or small ones with large headers, are bounded by their bytes.
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
			id := opened(t, srv, "2025-11-25", "{}")
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
			if grown := heap() - held; grown > 4<<20 { // but for the one that is stuck
				t.Errorf("%s: the heap has grown by %d KiB after the session's end", name, grown>>10)
			}
		}
		close(release)
		synctest.Wait()
		same(t, "handled", len(handled.got()), 3)
	})
}

// Sessions end while their clients go on to send: what waits goes with them, and no goroutine stays.
func TestNotificationsCrossTheEndOfTheirSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMCP(&server.Hooks{}, nil)
		s.AddNotificationHandler("notifications/n", func(context.Context, mcp.JSONRPCNotification) { runtime.Gosched() })
		srv := newServer(t, New(s), rejoin.Config{})
		before := runtime.NumGoroutine()
		for range 200 {
			id := opened(t, srv, "2025-11-25", "{}")
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
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines, before there were %d", n, before)
		}
	})
}

// However a handler ends, the next notification comes.
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
		id := opened(t, srv, "2025-03-26", "{}")
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

// The header of an HTTP request is not copied for what does not ask for it, however many messages come with it.
func TestABatchCopiesNoHeaderForItsNotifications(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMCP(&server.Hooks{}, nil)
		s.AddNotificationHandler("notifications/n", func(context.Context, mcp.JSONRPCNotification) {})
		srv := newServer(t, New(s), rejoin.Config{})
		id := opened(t, srv, "2025-03-26", "{}")
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

// Calls that are cancelled while their tools do not care are bounded by rejoin, however many there were; and what the client wants else is answered.
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

// A session can have so many subscriptions, of such a size. The next one is refused, with words that say why, until one is taken back; what each
// costs does not depend on how many there are.
func TestSubscriptionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		spy := &spyApp{App: New(newMCP(&server.Hooks{}, nil))}
		srv := newServer(t, spy, rejoin.Config{})
		id := opened(t, srv, "2025-11-25", "{}")
		ask := func(method, uri string) string {
			return exchange(srv, "POST", id, `{"jsonrpc":"2.0","id":1,"method":"resources/`+method+`","params":{"uri":"`+uri+`"}}`).Body.String()
		}
		const ok, many, long = `{"jsonrpc":"2.0","id":1,"result":{}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"` + bounds.TooManyURIs + `"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"` + bounds.LongURI + `"}}`
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
		same(t, "what another process would get", strings.Count(string(spy.last.s.SavedState()), "xxx"+strconv.Itoa(7)+`"`), 1)
	})
}

// What a message changes is what it costs, however much the client said before.
func TestAChangeCostsWhatItChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := newServer(t, New(newMCP(&server.Hooks{}, nil)), rejoin.Config{})
		measure := func(capabilities string) int {
			id := opened(t, srv, "2025-11-25", capabilities)
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

// What an idle session keeps of a large initialize is no multiple of it, whatever it is made of.
func TestIdleSessionsKeepLittleOfInitialize(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := newServer(t, New(newMCP(&server.Hooks{}, nil)), rejoin.Config{})
		fill := func(part string, size int) string { return strings.Repeat(part+",", size/(len(part)+1)) + part }
		measure := func(capabilities string) int {
			t.Helper()
			const n = 20
			before := heap()
			for range n {
				opened(t, srv, "2025-11-25", capabilities)
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
				w := exchange(srv, "POST", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"`+
					`raw","version":"7","icons":[`+fill(part, 7<<10)+`]}}}`)
				same(t, "initialize", w.Code, 200)
			}
			kept := (heap() - before) / n
			t.Logf("icons of %s: %d bytes, %.1f times", part, kept, float64(kept)/float64(honest))
			worst = max(worst, kept)
		}
		if worst > 64<<10 {
			t.Errorf("an idle session keeps %d bytes; an honest one %d", worst, honest)
		}
		w := exchange(srv, "POST", opened(t, srv, "2025-11-25", `{"sampling":{},"experimental":{"x":"`+strings.Repeat("x", 60<<10)+`"}}`), `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		same(t, "a session of a large initialize", w.Body.String(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}
