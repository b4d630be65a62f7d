package cluster_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const (
	crossedAtOnce = 6                      // sessions in a round
	crossedRounds = 24 - 16*(kit.Fewer/20) // the race detector is slow
)

// crossed is a session of ann whose owner is lost. Her client, and bob, send all at once.
type crossed struct {
	id       string
	deleted  bool   // she ends it meanwhile
	done     string // a cursor of a call with a result
	running  string // of one that has reported progress twice
	asking   string // of one that waits for the answer to a question
	question string // its id
	heard    string // of the standalone stream, of which she has read a, and not b
	sent     map[string]*kit.Response
	mu       sync.Mutex
}

// Requests of all kinds cross the adoption of their session at two processes, in any order: none is lost or served twice, no call ends twice, and another
// user gets nothing. If one of them is DELETE, the session is over in all processes. Nothing is left.
func TestEverythingCrossesAnAdoption(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{config: func(c *rejoin.Config) {
			c.Principal, c.Logger = kit.ByUser, kit.QuietLogger()
		}}
		of := watch(&o)
		w := newWorld(t, o)
		w.add(o)
		for n := 1; n < 3; n++ {
			of(n).App = kit.Tool(func(context.Context, *rejoin.Handle) (any, error) {
				kit.Elapse(time.Duration(rand.IntN(2)) * time.Millisecond)
				return "called", nil
			})
		}
		w.Client.Do(kit.Request(t, http.MethodDelete, "", "X-User", ""))
		elapse(3 * lease)
		var objects uint64
		var resting int
		for round := range crossedRounds {
			for n := range w.processes {
				of(n).forget()
			}
			crossAdoptions(t, w, of, round)
			if t.Failed() {
				return
			}
			w.net.CloseIdle()
			elapse(2 * time.Hour)
			switch now := kit.HeapObjects(); round {
			case crossedRounds / 3:
				objects, resting = now, len(kit.Goroutines())
			case crossedRounds - 1:
				require.Less(t, int64(now)-int64(objects), int64(crossedRounds*crossedAtOnce*5), "objects are left")
				kit.RequireRested(t, resting)
			}
		}
	})
}

func crossAdoptions(t *testing.T, w *world, of func(int) *watched, round int) {
	t.Helper()
	var all []*crossed
	for i := range crossedAtOnce {
		all = append(all, newCrossed(t, w, of, (round+i)%3 == 0))
	}
	dies(w)
	elapse(2 * lease)
	for n := 1; n < 3; n++ {
		of(n).opens(func(_ *http.Request, s *rejoin.Session, _ []byte) error {
			kit.Elapse(time.Duration(rand.IntN(2)) * time.Millisecond)
			return s.Notify(t.Context(), "notifications/opened", nil)
		})
	}
	var wait sync.WaitGroup
	for _, x := range all {
		x.sendAll(t, w, &wait)
	}
	wait.Wait()
	elapse(2 * lease)
	for _, x := range all {
		x.check(t, w)
	}
	w.revive(0)
	elapse(2 * lease)
	for _, x := range all {
		want := "204 ended"
		if x.deleted {
			want = gone
		}
		require.Equal(t, want, w.ask(t, 0, http.MethodDelete, x.id, "", "X-User", "ann").Summary())
	}
	elapse(10 * time.Second)
	for n, p := range w.processes {
		require.Zero(t, p.Stats().Sessions, "process %d", n)
	}
	require.Len(t, of(0).causes(), crossedAtOnce)
	require.Equal(t, crossedAtOnce, of(1).times()+of(2).times(), "each was adopted once")
	require.Len(t, append(of(1).causes(), of(2).causes()...), crossedAtOnce)
	held, _ := w.engine.Usage()
	require.Zero(t, held)
}

var questionID = regexp.MustCompile(`"id":("[^"]*"|\d+),"method":"roots/list"`)

func newCrossed(t *testing.T, w *world, of func(int) *watched, deleted bool) *crossed {
	t.Helper()
	x := &crossed{id: w.openFor(t, 0, "ann"), deleted: deleted, sent: map[string]*kit.Response{}}
	first := w.processes[0]
	call := func(id string) (*kit.Response, *kit.ManualTool) {
		res := w.ask(t, 0, http.MethodPost, x.id, kit.CallBody(id, `{"_meta":{"progressToken":1}}`), "X-User", "ann", "Mcp-Protocol-Version", kit.Polling)
		tool := first.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		return res, tool
	}
	done, doneTool := call("1")
	running, runningTool := call("2")
	asking, askingTool := call("3")
	require.NoError(t, runningTool.Progress(2, 0, ""))
	askingTool.Asks(askingTool.Ctx, "roots/list")
	listen := w.ask(t, 0, http.MethodGet, x.id, "", "X-User", "ann", "Mcp-Protocol-Version", kit.Polling)
	of(0).send(t, "a", "b")
	doneTool.Returns("done")
	last := func(res *kit.Response, n int) string { return kit.IDsIn(res)[n] }
	x.done, x.running, x.asking, x.heard = last(done, 0), last(running, 0), last(asking, 0), last(listen, 1)
	x.question = questionID.FindStringSubmatch(asking.Body.String())[1]
	return x
}

// sendAll sends all requests, each after a random time to a process of two.
func (x *crossed) sendAll(t *testing.T, w *world, wait *sync.WaitGroup) {
	t.Helper()
	cancel := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
	}
	answer := `{"jsonrpc":"2.0","id":` + x.question + `,"result":{"roots":[]}}`
	type request struct{ method, body, cursor string }
	requests := map[string]request{
		"ping":                     {http.MethodPost, kit.Ping, ""},
		"call":                     {http.MethodPost, kit.CallBody("4", "{}"), ""},
		"cancellation of the call": {http.MethodPost, cancel("4"), ""},
		"cancellation":             {http.MethodPost, cancel("2"), ""},
		"answer":                   {http.MethodPost, answer, ""},
		"notification":             {http.MethodPost, note, ""},
		"done":                     {http.MethodGet, "", x.done},
		"running":                  {http.MethodGet, "", x.running},
		"asking":                   {http.MethodGet, "", x.asking},
		"listen":                   {http.MethodGet, "", x.heard},
	}
	if x.deleted {
		requests["DELETE"] = request{http.MethodDelete, "", ""}
	}
	for name, q := range maps.Clone(requests) {
		requests["bob's "+name] = q
	}
	requests["bob's DELETE"] = request{http.MethodDelete, "", ""}
	for name, q := range requests {
		user := "ann"
		if strings.HasPrefix(name, "bob") {
			user = "bob"
		}
		header := []string{"X-User", user, "Mcp-Session-Id", x.id, "Mcp-Protocol-Version", kit.Polling}
		if q.method == http.MethodGet {
			header = append(header, "Accept", "text/event-stream", "Last-Event-ID", q.cursor)
		}
		pause, n := time.Duration(rand.IntN(4))*time.Millisecond/2, 1+rand.IntN(2)
		wait.Go(func() {
			kit.Elapse(pause)
			for range 20 { // as often as it is told to come back
				res := &kit.Response{Head: http.Header{}}
				go func() {
					w.processes[n].Serve(res, kit.Request(t, q.method, q.body, header...))
					res.Mu.Lock()
					defer res.Mu.Unlock()
					res.Ended = true
				}()
				kit.Elapse(500 * time.Millisecond) // an adoption takes less
				res.Mu.Lock()
				body := res.Body.String()
				held := res.Ended && !strings.Contains(body, "data: {") && strings.Contains(body, "retry: ")
				again := held || res.Status == http.StatusServiceUnavailable
				res.Mu.Unlock()
				x.mu.Lock()
				x.sent[name] = res
				x.mu.Unlock()
				if !again {
					return
				}
				n = 1 + rand.IntN(2)
			}
			t.Errorf("%s was never served", name)
		})
	}
}

// check looks at what the client has got.
func (x *crossed) check(t *testing.T, w *world) {
	t.Helper()
	synctest.Wait()
	want := map[string][]string{
		"ping":         {served},
		"call":         {served, "200 sse ended"}, // or it was cancelled
		"cancellation": {"202 ended"}, "cancellation of the call": {"202 ended"}, "answer": {"202 ended"}, "notification": {"202 ended"},
		"done":    {"200 sse primer@0 1:progress 2:result ended"},
		"running": {"200 sse primer@0 1:progress 2:progress 2~:error(-32000,2) owner_lost ended"},
		"asking":  {"200 sse primer@0 1:progress 2:roots/list 2~:error(-32000,3) owner_lost ended"},
		"listen":  {"200 sse primer@1 2:b 1:opened open"},
		"DELETE":  {"204 ended"},
	}
	for name, res := range x.sent {
		got := res.Summary()
		switch {
		case strings.HasPrefix(name, "bob"):
			require.Equal(t, gone, got, name)
		case !x.deleted:
			require.Contains(t, want[name], got, "%s: %s", name, res.Body.String())
		case got == gone:
		case name == "listen":
			require.Regexp(t, `^200 sse primer@1 2:b( 1:opened)?( |$).*ended$`, got)
		case name == "call":
			require.Regexp(t, "^"+regexp.QuoteMeta(served)+"|ended", got)
		default:
			require.Contains(t, want[name], got, name)
		}
	}
	if !x.deleted {
		return
	}
	for n := 1; n < 3; n++ {
		for _, v := range verbs {
			require.Equal(t, gone, w.ask(t, n, v.method, x.id, v.body, "X-User", "ann").Summary(), "%s at %d", v.name, n)
		}
	}
}
