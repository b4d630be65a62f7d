package gosdk

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
)

// heap returns the bytes in use after several collections: a cleanup of the first one releases notifications for the next.
func heap() int {
	var m runtime.MemStats
	for range 4 {
		runtime.GC()
		runtime.Gosched()
	}
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

// rawClient sends any message.
type rawClient struct {
	t       *testing.T
	srv     *rejoin.Server
	session string
	fields  int // how many more header fields to send
}

func newRawClient(t *testing.T, app rejoin.App, cfg rejoin.Config) *rawClient {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = new(logBuffer).logger()
	}
	srv, err := rejoin.NewServer(app, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return &rawClient{t: t, srv: srv}
}

func (c *rawClient) do(method, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, "/mcp", strings.NewReader(body))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	for i := range c.fields {
		r.Header["X"+strconv.Itoa(i)] = []string{"1"}
	}
	c.srv.Serve(w, r)
	return w
}

// ask sends a message and returns the answer. Neither text has the member jsonrpc.
func (c *rawClient) ask(message string) string {
	return strings.TrimPrefix(c.do("POST", `{"jsonrpc":"2.0",`+message+`}`).Body.String(), `{"jsonrpc":"2.0",`)
}

// open opens a new session.
func (c *rawClient) open(version, more string) {
	c.t.Helper()
	c.session = ""
	w := c.do("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`",`+more+`}}`)
	if c.session = w.Header().Get("Mcp-Session-Id"); c.session == "" {
		c.t.Fatalf("%d %s", w.Code, w.Body)
	}
	synctest.Wait()
}

const plainParams = `"capabilities":{},"clientInfo":{"name":"raw","version":"7"}`

// The bound of waiting notifications counts their own bytes, not those of their HTTP bodies, and their headers.
func TestNotificationsThatWaitAreBoundedInBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		c := newRawClient(t, New(newServer(&mcp.ServerOptions{RootsListChangedHandler: func(ctx context.Context, _ *mcp.RootsListChangedRequest) {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}}, nil)), rejoin.Config{})
		const changed = `"method":"notifications/roots/list_changed"`
		for name, send := range map[string]func(){
			"large ones":       func() { c.ask(changed + `,"params":{"x":"` + strings.Repeat("x", 1<<20) + `"}`) },
			"with white space": func() { c.ask(changed + strings.Repeat(" ", 1<<20)) },
			"large headers":    func() { c.fields = 1500; c.ask(changed); c.fields = 0 },
		} {
			c.open("2025-11-25", plainParams)
			c.ask(`"method":"notifications/initialized"`)
			held := heap()
			for range 100 {
				send()
			}
			synctest.Wait()
			if grown := heap() - held; grown > 12<<20 {
				t.Errorf("%s: the heap has grown by %d KiB", name, grown>>10)
			} else {
				t.Logf("%s: %d KiB", name, grown>>10)
			}
			c.do("DELETE", "")
			synctest.Wait()
		}
		close(release)
	})
}

// subscriptionSet is the subscriptions of a server, as its handlers get them.
type subscriptionSet struct {
	mu  sync.Mutex
	all map[string]bool
}

func (s *subscriptionSet) server() *mcp.Server {
	s.all = map[string]bool{}
	change := func(uri string, on bool) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.all, uri); on {
			s.all[uri] = true
		}
		return nil
	}
	return newServer(&mcp.ServerOptions{
		SubscribeHandler:   func(_ context.Context, r *mcp.SubscribeRequest) error { return change(r.Params.URI, true) },
		UnsubscribeHandler: func(_ context.Context, r *mcp.UnsubscribeRequest) error { return change(r.Params.URI, false) },
	}, nil)
}

// The number and the size of subscriptions are bounded. Beyond the bound a call is refused with the reason, until the client unsubscribes from one.
// The cost of a subscription does not depend on their number.
func TestSubscriptionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var sdk subscriptionSet
		a := &movableApp{App: New(sdk.server()), sessions: map[*rejoin.Session]*movableSession{}}
		c := newRawClient(t, a, rejoin.Config{})
		c.open("2025-11-25", plainParams)
		subscribe := func(method, uri string) string {
			return c.ask(`"id":1,"method":"resources/` + method + `","params":{"_meta":{"a":1},"uri":"` + uri + `"}`)
		}
		const ok, many, long = `"id":1,"result":{}}`, `"id":1,"error":{"code":-32602,"message":"` + bounds.TooManyURIs + `"}}`,
			`"id":1,"error":{"code":-32602,"message":"` + bounds.LongURI + `"}}`
		uri := func(n int) string { return strings.Repeat("x", bounds.URIBytes-10) + strconv.Itoa(n) }
		want := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Fatalf("%s: %.300s", what, got)
			}
		}
		costs := []int{}
		for from := 0; from < bounds.URIs; from += 100 {
			costs = append(costs, allocated(func() {
				for n := range 100 {
					want("subscribe", subscribe("subscribe", uri(from+n)), ok)
				}
			}))
		}
		t.Logf("a hundred cost %d bytes", costs)
		if costs[len(costs)-1] > 3*costs[0] {
			t.Errorf("a hundred cost %d bytes", costs)
		}
		for n := range bounds.URIs {
			want("one more", subscribe("subscribe", uri(bounds.URIs+n)), many)
		}
		want("one again", subscribe("subscribe", uri(0)), ok)
		want("a long one", subscribe("subscribe", strings.Repeat("x", bounds.URIBytes+1)), long)
		want("unsubscribe", subscribe("unsubscribe", uri(3)), ok)
		want("in its place", subscribe("subscribe", "other"), ok)
		want("one more", subscribe("subscribe", uri(3)), many)
		for n := range 100 { // however the URI is written, the bridge and the SDK read the same value
			other := strconv.Itoa(n)
			for _, params := range []string{
				`{"uri":"more` + other + `","URI":"other"}`, `{"uri":"other","URI":"more` + other + `"}`, `{"uri":"other","uri":"more` + other + `"}`,
				`{"uri":"more` + other + `","uri":"other"}`, `{"uri":7,"uri":"more` + other + `"}`, `{"Uri":"more` + other + `"}`, `{"\u0075ri":"more` + other + `"}`,
			} {
				c.ask(`"id":1,"method":"resources/subscribe","params":` + params)
			}
		}
		if n := len(sdk.all); n > bounds.URIs {
			t.Errorf("the SDK has %d subscriptions", n)
		}
		for session := range a.sessions {
			var st savedState
			if err := json.Unmarshal(session.SavedState(), &st); err != nil || len(st.Subscribed) != bounds.URIs {
				t.Errorf("%d subscriptions are saved: %v", len(st.Subscribed), err)
			}
			if err := a.move(session, New(sdk.server())); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			want("after a move", subscribe("subscribe", uri(3)), many)
			want("after a move", subscribe("unsubscribe", uri(5)), ok)
			want("after a move", subscribe("subscribe", uri(3)), ok)
		}
	})
}

// Calls that subscribe and unsubscribe run at the same time, thousands of times. The SDK never has more subscriptions than allowed.
func TestSubscriptionsThatCross(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var sdk subscriptionSet
		c := newRawClient(t, New(sdk.server()), rejoin.Config{})
		c.open("2025-11-25", plainParams)
		for n := range bounds.URIs - 4 {
			c.ask(`"id":1,"method":"resources/subscribe","params":{"uri":"first` + strconv.Itoa(n) + `"}`)
		}
		for round := range 300 {
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() {
					method := []string{"subscribe", "unsubscribe"}[i%2]
					c.ask(`"id":` + strconv.Itoa(i) + `,"method":"resources/` + method + `","params":{"uri":"` + strconv.Itoa(round*8+i/2) + `"}`)
				})
			}
			all.Wait()
			if n := len(sdk.all); n > bounds.URIs {
				t.Fatalf("the SDK has %d subscriptions", n)
			}
		}
		for uri := range sdk.all { // each can be removed
			c.ask(`"id":1,"method":"resources/unsubscribe","params":{"uri":"` + uri + `"}`)
		}
		for n := range 300 * 8 {
			c.ask(`"id":1,"method":"resources/unsubscribe","params":{"uri":"` + strconv.Itoa(n) + `"}`)
		}
		for n := range bounds.URIs {
			if got := c.ask(`"id":1,"method":"resources/subscribe","params":{"uri":"last` + strconv.Itoa(n) + `"}`); got != `"id":1,"result":{}}` {
				t.Fatal(got)
			}
		}
	})
}

// A subscription that the server refuses does not count.
func TestSubscriptionsThatFailTakeNoPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refuse := true
		c := newRawClient(t, New(newServer(&mcp.ServerOptions{
			SubscribeHandler: func(context.Context, *mcp.SubscribeRequest) error {
				if refuse {
					return mcp.ResourceNotFoundError("x")
				}
				return nil
			},
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		}, nil)), rejoin.Config{})
		c.open("2025-11-25", plainParams)
		for _, refuse = range []bool{true, false, true} {
			for n := range bounds.URIs {
				got := c.ask(`"id":1,"method":"resources/subscribe","params":{"uri":"` + strconv.Itoa(n) + `"}`)
				if strings.Contains(got, "error") != refuse || strings.Contains(got, bounds.TooManyURIs) {
					t.Fatal(n, got)
				}
			}
		}
	})
}

// The cost of a change does not depend on the size of the state.
func TestAChangeCostsWhatItChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var sdk subscriptionSet
		c := newRawClient(t, New(sdk.server()), rejoin.Config{})
		measure := func(subscriptions int) int {
			c.open("2025-11-25", plainParams)
			for n := range subscriptions {
				c.ask(`"id":1,"method":"resources/subscribe","params":{"uri":"` + strconv.Itoa(n) + strings.Repeat("x", 8000) + `"}`)
			}
			change := func() {
				for i := range 20 {
					c.ask(`"id":1,"method":"logging/setLevel","params":{"level":"` + []string{"debug", "error"}[i%2] + `"}`)
					c.ask(`"method":"notifications/initialized"`)
				}
			}
			change()
			return allocated(change)
		}
		small, large := measure(0), measure(100)
		t.Logf("changes cost %d bytes, of a large state %d", small, large)
		if large > small*5/4 {
			t.Errorf("changes cost %d bytes, of a large state %d", small, large)
		}
	})
}

// An idle session keeps little of its initialize and of other large messages, whatever they consist of.
func TestIdleSessionsKeepLittle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newRawClient(t, New(newServer(nil, nil)), rejoin.Config{})
		fill := func(part string, size int) string { return strings.Repeat(part+",", size/(len(part)+1)) + part }
		const limit = 160 << 10
		once := func(opening string, then ...string) int {
			t.Helper()
			const n = 20
			before := heap()
			for range n {
				c.open("2025-11-25", opening)
				for _, message := range then {
					c.ask(message)
				}
			}
			kept := (heap() - before) / n
			runtime.KeepAlive(opening)
			runtime.KeepAlive(then)
			return kept
		}
		// A buffer of the HTTP client's may still be in use at one measurement, but what sessions keep is there at the next one, too.
		measure := func(opening string, then ...string) (kept int) {
			t.Helper()
			for range 2 {
				if kept = once(opening, then...); kept <= limit {
					break
				}
			}
			return kept
		}
		measure(plainParams)
		honest, worst := measure(plainParams), 0
		note := func(what string, kept int) {
			t.Logf("%s: %d bytes, %.1f times", what, kept, float64(kept)/float64(honest))
			worst = max(worst, kept)
		}
		for _, size := range []int{7 << 10, 60 << 10} {
			for _, part := range []string{`{}`, `0`, `""`, `{"a":{}}`, `[[]]`} {
				note(strconv.Itoa(size)+" bytes of "+part,
					measure(`"capabilities":{"sampling":{},"experimental":{"x":[`+fill(part, size)+`]}},"clientInfo":{"name":"raw","version":"7"}`))
			}
		}
		note("icons", measure(`"capabilities":{},"clientInfo":{"name":"raw","version":"7","icons":[`+fill(`{}`, 7<<10)+`]}`))
		note("initialized", measure(plainParams, `"method":"notifications/initialized","params":{"_meta":{"x":[`+fill(`{"a":{}}`, 1<<20)+`]}}`))
		note("a level", measure(plainParams, `"id":1,"method":"logging/setLevel","params":{"level":"`+strings.Repeat("x", 1<<20)+`"}`))
		note("another level", measure(plainParams, `"id":1,"method":"logging/setLevel","params":{"level":"debug","LEVEL":"`+strings.Repeat("x", 1<<20)+`"}`))
		large := `{"name":"x","arguments":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`
		note("a call", measure(plainParams, `"id":1,"method":"tools/call","params":`+large))
		note("a call and a note", measure(plainParams, `"id":1,"method":"tools/call","params":`+large, `"method":"notifications/roots/list_changed","params":`+large))
		note("an unknown method", measure(plainParams, `"id":1,"method":"x","params":`+large))
		note("an unknown notification", measure(plainParams, `"method":"notifications/x","params":`+large))
		note("notes", measure(plainParams, slices.Repeat([]string{`"method":"notifications/x","params":` + large}, 5)...))
		if worst > limit {
			t.Errorf("an idle session keeps %d bytes; an honest one %d", worst, honest)
		}
	})
}

// For a URI with a control character the SDK writes invalid JSON into the data of an error. Clients of both eras get valid JSON with the URI.
func TestAResourceThatIsNotFound(t *testing.T) {
	for _, id := range []string{`a\u0001b`, `a\u007f\u0000`, `a`, `a\"b\\c`, `\ud83d\ude00`, "\u00ad"} {
		bubble(t, func(t *testing.T) {
			s := newServer(nil, nil)
			s.AddResource(&mcp.Resource{URI: "a:1", Name: "a"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) { return nil, nil })
			bridged := New(s)
			eras := rejoin.EraBoth
			if bridged.Modern() == nil { // an older version of the SDK
				eras = rejoin.EraLegacy
			}
			c := newRawClient(t, bridged, rejoin.Config{Eras: eras})
			c.open("2025-03-26", plainParams)
			const read = `{"jsonrpc":"2.0","id":%,"method":"resources/read","params":{"uri":"#"}}`
			one := strings.NewReplacer("%", "1", "#", id).Replace(read)
			batch := c.do("POST", "["+one+`,{"jsonrpc":"2.0","id":2,"method":"ping"}]`).Body.Bytes()
			modern := []byte(`{"error":{"data":{"uri":"` + id + `"}}}`)
			if eras == rejoin.EraBoth {
				modern = modernRead(c.srv, id)
			}
			type answer struct {
				ID    int
				Error struct{ Data struct{ URI string } }
			}
			var all []answer
			var third answer
			if err := json.Unmarshal(batch, &all); err != nil || len(all) != 2 {
				t.Fatalf("%v: %s", err, batch)
			}
			if err := json.Unmarshal(modern, &third); err != nil {
				t.Fatalf("%v: %s", err, modern)
			}
			var want string
			if err := json.Unmarshal([]byte(`"`+id+`"`), &want); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(all, func(a answer) bool { return a.ID == 1 })
			if all[i].Error.Data.URI != want || third.Error.Data.URI != want {
				t.Errorf("%q: %s %s", want, batch, modern)
			}
		})
	}
}

// modernRead reads a resource as a client of the modern era does, and returns the answer.
func modernRead(srv *rejoin.Server, uri string) []byte {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"`+uri+
		`","_meta":{`+modernMeta+`}}}`))
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {modernVersion},
		"Mcp-Method": {"resources/read"},
	}
	var name string
	if json.Unmarshal([]byte(`"`+uri+`"`), &name) == nil {
		r.Header.Set("Mcp-Name", name)
	}
	srv.Serve(w, r)
	for line := range strings.Lines(w.Body.String()) {
		if message, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			return []byte(message)
		}
	}
	return w.Body.Bytes()
}
