package door_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// attackApp has one method for honest clients, and methods that a hostile client uses to fill the server.
func attackApp() rejoin.App {
	large := json.RawMessage(`{"x":"` + strings.Repeat("x", 16<<10) + `"}`)
	return rejoin.NewApp(kit.Info, kit.RawResults(func(ctx context.Context, r *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		switch r.Method {
		case "honest": // sends a message, closes its stream, and goes on
			for i := range 6 {
				if err := h.Notify("notifications/x", json.RawMessage(fmt.Sprintf(`{"i":%d}`, i))); err != nil {
					return nil, err
				}
				if i == 2 {
					_ = h.CloseStream(time.Millisecond)
				}
			}
			return "done", nil
		case "events": // sends events in a call that its client does not poll
			_ = h.CloseStream(time.Hour)
			for h.Notify("notifications/x", large) == nil {
			}
			<-ctx.Done()
		case "results":
			_ = h.CloseStream(time.Hour)
			return large, nil
		case "notifications":
			for range 50 {
				_ = h.Session().Notify(context.Background(), "notifications/x", large)
			}
		case "questions":
			for range 50 {
				h.Session().AskFunc(context.Background(), "roots/list", large, func(json.RawMessage, error) {})
			}
		}
		return nil, nil
	}))
}

// attacks are what a hostile client does at full speed. Each call of one makes a step in one of its sessions.
var attacks = map[string]func(t *testing.T, s *rejoin.Server, session string, n int){
	"sessions":      func(*testing.T, *rejoin.Server, string, int) {},
	"events":        callsOf("events"),
	"results":       callsOf("results"),
	"notifications": callsOf("notifications"),
	"questions":     callsOf("questions"),
	"polls": func(t *testing.T, s *rejoin.Server, session string, n int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		kit.ServeNow(s, byMallory(kit.Request(t, http.MethodGet, "", "Mcp-Session-Id", session)).WithContext(ctx))
	},
	"all": func(t *testing.T, s *rejoin.Server, session string, n int) {
		callsOf([]string{"events", "results", "notifications", "questions"}[n%4])(t, s, session, n)
	},
}

func byMallory(r *http.Request) *http.Request {
	r.Header.Set("X-User", "mallory")
	return r
}

func callsOf(method string) func(*testing.T, *rejoin.Server, string, int) {
	return func(t *testing.T, s *rejoin.Server, session string, n int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, n, method)
		kit.ServeNow(s, byMallory(kit.InSession(t, session, body)).WithContext(ctx))
	}
}

// One hostile client attacks at full speed beside ten honest ones, which lose nothing: no session, no message, no result. The test logs how long
// they wait. It runs in real time, because it is about events in very many places at once.
func TestOneHostileClientTakesNothingFromOthers(t *testing.T) {
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			store := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 1 << 20, TotalBytes: 8 << 20})
			s := kit.NewServer(t, attackApp(), rejoin.Config{
				Store: store, MaxSessions: 100, Principal: kit.ByUser, KeepAlive: -1, Logger: kit.QuietLogger(), Policy: rejoin.Policy{Mode: rejoin.ModeSSE},
			})
			ctx, stop := context.WithCancel(t.Context())
			var hostile, honest sync.WaitGroup
			var steps, refused atomic.Int64
			for range 4 {
				hostile.Go(func() {
					var own []string
					for n := 0; ctx.Err() == nil; n++ {
						w := kit.ServeNow(s, byMallory(kit.Request(t, http.MethodPost, kit.Initialize)))
						if id := w.Header().Get("Mcp-Session-Id"); id != "" {
							own = append(own, id)
							kit.ServeNow(s, byMallory(kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/x"}`)))
						} else {
							refused.Add(1)
						}
						if len(own) > 0 {
							attack(t, s, own[n%len(own)], n)
						}
						steps.Add(1)
					}
				})
			}
			for steps.Load() < 400 { // until the attack has filled what it can
				runtime.Gosched()
			}
			var mu sync.Mutex
			var failed atomic.Int64
			var waits []time.Duration
			for i := range 10 {
				honest.Go(func() {
					c := &honestClient{t: t, s: s, user: fmt.Sprint("user", i)}
					for n := 0; n < 20 || steps.Load() < 400+4000/kit.Fewer; n++ {
						began := time.Now()
						if !c.round(n) {
							failed.Add(1)
							return
						}
						mu.Lock()
						waits = append(waits, time.Since(began))
						mu.Unlock()
					}
				})
			}
			honest.Wait()
			stop()
			s.Close()
			hostile.Wait()
			slices.Sort(waits)
			require.Zero(t, failed.Load(), "honest clients that lost something")
			t.Logf("%d steps of the attack, %d sessions refused; a round of an honest client took %v, 99 of 100 less than %v",
				steps.Load(), refused.Load(), waits[len(waits)/2], waits[len(waits)*99/100])
		})
	}
}

// honestClient has one session, and calls a tool again and again that closes its stream.
type honestClient struct {
	t       *testing.T
	s       *rejoin.Server
	user    string
	session string
}

func (c *honestClient) serve(method, body string, header ...string) *kit.Recorder {
	r := kit.Request(c.t, method, body, append([]string{"X-User", c.user, "Mcp-Session-Id", c.session}, header...)...)
	if c.session == "" {
		r.Header.Del("Mcp-Session-Id")
	}
	return kit.ServeNow(c.s, r)
}

// round makes one call, and reports whether the client has lost nothing.
func (c *honestClient) round(n int) bool {
	if c.session == "" {
		w := c.serve(http.MethodPost, kit.Initialize)
		if c.session = w.Header().Get("Mcp-Session-Id"); !c.is(http.StatusOK, w, "initialize") {
			return false
		}
	}
	if !c.is(http.StatusOK, c.serve(http.MethodPost, kit.Ping), "ping") {
		return false
	}
	w := c.serve(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"honest"}`, n))
	got := ""
	for range 100 {
		if !c.is(http.StatusOK, w, "a stream") {
			return false
		}
		last := ""
		for line := range strings.Lines(w.Body.String()) {
			switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); name {
			case "id":
				last = value
			case "data":
				got += value
			}
		}
		if strings.Contains(got, `"result"`) || strings.Contains(got, `"error"`) {
			break
		}
		w = c.serve(http.MethodGet, "", "Last-Event-ID", last)
	}
	want := ""
	for i := range 6 {
		want += fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/x","params":{"i":%d}}`, i)
	}
	want += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":"done"}`, n)
	if got != want {
		c.t.Errorf("%s, call %d: %s", c.user, n, got)
	}
	return got == want
}

func (c *honestClient) is(want int, w *kit.Recorder, what string) bool {
	if w.Status != want {
		c.t.Errorf("%s: %s: %d %s", c.user, what, w.Status, w.Body.String())
	}
	return w.Status == want
}
