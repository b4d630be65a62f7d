package cluster_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// watched is an app whose sessions are watched. It may refuse to open them.
type watched struct {
	rejoin.App
	next func() *kit.ManualTool

	mu     sync.Mutex
	onOpen func(*http.Request, *rejoin.Session, []byte) error // nil: it succeeds
	opened []opened
	ended  []error
	notes  []string // methods of notifications
}

// opened is what App.Open got.
type opened struct {
	s     *rejoin.Session
	state []byte
	known bool // the state is not nil
}

func newWatched() *watched {
	a := &watched{}
	a.App, a.next = kit.ManualTools()
	return a
}

// watch gives each process of a world an app that is watched. The result has that of process n.
func watch(o *options) (of func(n int) *watched) {
	var all []*watched
	o.app = func(int) (rejoin.App, func() *kit.ManualTool) {
		a := newWatched()
		all = append(all, a)
		return a, a.next
	}
	return func(n int) *watched { return all[n] }
}

func (a *watched) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	a.mu.Lock()
	a.opened = append(a.opened, opened{s, state, state != nil})
	onOpen := a.onOpen
	a.mu.Unlock()
	if onOpen != nil {
		if err := onOpen(r, s, state); err != nil {
			return nil, err
		}
	}
	inner, err := a.App.Open(r, s, state)
	return watchedSession{inner, a}, err
}

// opens says what Open does before it succeeds.
func (a *watched) opens(onOpen func(*http.Request, *rejoin.Session, []byte) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.onOpen = onOpen
}

// times is how often Open was called.
func (a *watched) times() int {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.opened)
}

// last is what Open got last.
func (a *watched) last() opened {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.opened[len(a.opened)-1]
}

// causes are what Ended got.
func (a *watched) causes() []error {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]error(nil), a.ended...)
}

// notifications are the methods of those that the app got, but for initialized.
func (a *watched) notifications() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.notes...)
}

type watchedSession struct {
	rejoin.AppSession
	a *watched
}

func (s watchedSession) Notification(n *rejoin.Notification) {
	s.a.mu.Lock()
	if n.Method() != "notifications/initialized" {
		s.a.notes = append(s.a.notes, n.Method())
	}
	s.a.mu.Unlock()
	s.AppSession.Notification(n)
}

func (s watchedSession) Ended(cause error) {
	s.a.mu.Lock()
	s.a.ended = append(s.a.ended, cause)
	s.a.mu.Unlock()
	s.AppSession.Ended(cause)
}

// lose kills the first process, and sends the client to the second from then on.
func (w *world) lose() *process {
	w.kill(0)
	return w.use(1)
}

// open opens a session at a process, besides that of the client.
func (w *world) open(t *testing.T, n int) (id string) {
	t.Helper()
	return kit.OpenReady(t, w.processes[n].Server)
}

// openAs is open for a client of another version.
func (w *world) openAs(t *testing.T, n int, version string) (id string) {
	t.Helper()
	res := kit.Serve(w.processes[n].Server, kit.Request(t, http.MethodPost, strings.Replace(kit.Initialize, kit.Polling, version, 1)))
	require.Equal(t, served, res.Summary())
	return res.Head.Get("Mcp-Session-Id")
}

// ask sends a request of any method to a process, without a network. It returns when all goroutines of the bubble are blocked.
func (w *world) ask(t *testing.T, n int, method, session, body string, header ...string) *kit.Response {
	t.Helper()
	header = append([]string{"Mcp-Session-Id", session}, header...)
	if method == http.MethodGet {
		header = append([]string{"Accept", "text/event-stream"}, header...)
	}
	return kit.Serve(w.processes[n].Server, kit.Request(t, method, body, header...))
}

// ping sends a ping to a process, and returns the summary of the answer.
func (w *world) ping(t *testing.T, n int, session string) string {
	t.Helper()
	return w.ask(t, n, http.MethodPost, session, kit.Ping).Summary()
}

// Answers to a ping.
const (
	served = "200 result ended"
	later  = `503 error(-32000,"mine") ended`
	gone   = "404 error(-32001,null) ended"
)

// run starts a call that has reported progress n times, and waits for its tool.
func (w *world) run(t *testing.T, n int) (*rejointest.Call, *kit.ManualTool) {
	t.Helper()
	p := w.processes[w.serving.Load()]
	call := w.CallTool("x", nil)
	tool := p.next()
	elapse(time.Second) // its stream has begun, also without an event
	for i := range n {
		require.NoError(t, tool.Progress(float64(i+1), 0, ""))
	}
	require.NoError(t, tool.CloseStream(0))
	elapse(time.Second)
	return call, tool
}
