package adoptions

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// answer is a response that can be read while it is written.
type answer struct {
	head http.Header

	mu     sync.Mutex
	status int
	body   bytes.Buffer
	ended  bool
}

func (a *answer) Header() http.Header { return a.head }

func (a *answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = status
}

func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.body.Write(p)
}

func (a *answer) Flush() {}

// got returns the status and the body so far, and whether that is all.
func (a *answer) got() (status int, body string, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status, a.body.String(), a.ended
}

// message is a request of a user in a session.
type message struct{ user, session, method, body, cursor string }

// at serves the message in a process, in a goroutine of its own.
func (m message) at(p *process) *answer {
	r := httptest.NewRequestWithContext(context.Background(), m.method, "http://example.com/mcp", strings.NewReader(m.body))
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}, "X-User": {m.user},
	}
	if m.session != "" {
		r.Header.Set("Mcp-Session-Id", m.session)
	}
	if m.cursor != "" {
		r.Header.Set("Last-Event-ID", m.cursor)
	}
	a := &answer{head: http.Header{}}
	go func() {
		p.srv.Serve(a, r)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ended = true
	}()
	return a
}

// crossed is a session of ann with a call that has a result, one that runs and one that asks, whose owner is lost.
type crossed struct {
	id                            string
	deleted                       bool
	done, running, asks, question string
	answers                       map[string]*answer
}

var (
	firstID    = regexp.MustCompile(`(?m)^id: ?(.+)$`)
	questionID = regexp.MustCompile(`"id":("[^"]*"|\d+),"method":"elicitation/create"|"method":"elicitation/create".*"id":("[^"]*"|\d+)`)
)

func (w *world) newCrossed(deleted bool) *crossed {
	w.Helper()
	first := w.processes[0]
	opened := message{"ann", "", http.MethodPost, initialize, ""}.at(first)
	synctest.Wait()
	x := &crossed{id: opened.head.Get("Mcp-Session-Id"), deleted: deleted, answers: map[string]*answer{}}
	send := func(body string) *answer { return w.call(x, body) }
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send(`{"jsonrpc":"2.0","id":10,"method":"logging/setLevel","params":{"level":"debug"}}`)
	send(`{"jsonrpc":"2.0","id":11,"method":"resources/subscribe","params":{"uri":"a:1"}}`)
	done := send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
	w.release <- struct{}{}
	x.done = done.cursor()
	return x
}

// running starts the calls that do not end before their owner is lost.
func (w *world) running(x *crossed) {
	x.running = w.call(x, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}`).cursor()
	asks := w.call(x, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask"}}`)
	x.asks = asks.cursor()
	_, body, _ := asks.got()
	id := questionID.FindStringSubmatch(body)
	x.question = id[1] + id[2]
}

// call sends a message to the first process.
func (w *world) call(x *crossed, body string) *answer {
	a := message{"ann", x.id, http.MethodPost, body, ""}.at(w.processes[0])
	elapse(time.Second)
	return a
}

// cursor is the first event id of a stream.
func (a *answer) cursor() string {
	_, body, _ := a.got()
	return strings.TrimSpace(firstID.FindStringSubmatch(body)[1])
}

// messages are what ann and bob send at the same time.
func (x *crossed) messages() map[string]message {
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`
	reply := `{"jsonrpc":"2.0","id":` + x.question + `,"result":{"action":"accept","content":{"echo":"late"}}}`
	all := map[string]message{}
	for _, user := range []string{"ann", "bob"} {
		post := func(name, body string) { all[user+": "+name] = message{user, x.id, http.MethodPost, body, ""} }
		post("ping", ping)
		post("call", `{"jsonrpc":"2.0","id":20,"method":"tools/call","params":{"name":"quick"}}`)
		post("subscribe", `{"jsonrpc":"2.0","id":21,"method":"resources/subscribe","params":{"uri":"a:2"}}`)
		post("setLevel", `{"jsonrpc":"2.0","id":22,"method":"logging/setLevel","params":{"level":"error"}}`)
		post("cancel", cancel)
		post("answer", reply)
		post("roots", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		for name, cursor := range map[string]string{"done": x.done, "running": x.running, "asks": x.asks, "listen": ""} {
			all[user+": "+name] = message{user, x.id, http.MethodGet, "", cursor}
		}
		if user == "bob" || x.deleted {
			all[user+": DELETE"] = message{user, x.id, http.MethodDelete, "", ""}
		}
	}
	return all
}

// sendAll sends all of them, each after a random time to one of two processes that adopt the session. Who is told to come back does so, at the adopter.
func (w *world) sendAll(x *crossed, wait *sync.WaitGroup) {
	var mu sync.Mutex
	for name, m := range x.messages() {
		pause, n := time.Duration(rand.IntN(4))*time.Millisecond, 1+rand.IntN(2) //nolint:gosec // nothing secret
		wait.Go(func() {
			<-time.After(pause)
			for range 10 {
				a := m.at(w.processes[n])
				<-time.After(500 * time.Millisecond)
				status, body, ended := a.got()
				mu.Lock()
				x.answers[name] = a
				mu.Unlock()
				held := ended && status == http.StatusOK && strings.Contains(body, "retry: ") && !strings.Contains(body, "data: {")
				if status != 0 && status != http.StatusServiceUnavailable && !held {
					return
				}
				n = 3 - n // the processes do not reach each other
			}
			w.Errorf("%s: it was never served", name)
		})
	}
}
