package torture_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/sse"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// hearing is one stream of a guest, over all its connections.
type hearing struct {
	c       *guest
	v       *visit
	name    string // of the call; "": the standalone stream
	cursor  string
	retry   time.Duration
	ids     map[string]bool // of events that have come
	by      []string        // the processes that the connections went to
	answers sync.WaitGroup

	progress int
	response string

	mu      sync.Mutex
	tickers []string       // in the order in which they were heard
	heard   map[string]int // notifications of each ticker
}

func newHearing(c *guest, v *visit, name string) *hearing {
	return &hearing{c: c, v: v, name: name, retry: time.Second, ids: map[string]bool{}, heard: map[string]int{}}
}

func (r *hearing) fault(format string, args ...any) {
	r.c.fault("%s: "+format+" (by %v)", append(append([]any{r.name}, args...), r.by)...)
}

// read reads a connection until the response, until it ends, or until the guest has enough. It reports whether it has ended cleanly.
func (r *hearing) read(res *http.Response, until <-chan struct{}) (clean bool) {
	r.by = append(r.by, res.Header.Get("By"))
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		r.message([]byte(r.c.whole(r.name, res)))
		return true
	}
	done := make(chan struct{})
	defer close(done)
	enough := time.Hour
	if r.c.cuts && r.c.dice(3) == 0 {
		enough = time.Duration(250*(1+r.c.dice(20))) * time.Millisecond
	}
	cut := make(chan struct{})
	go func() {
		timer := time.NewTimer(enough)
		defer timer.Stop()
		select {
		case <-until:
			close(cut)
		case <-timer.C:
			close(cut)
		case <-done:
		}
		_ = res.Body.Close()
	}()
	events := sse.NewReader(res.Body, 1<<20)
	for r.response == "" {
		e, err := events.Next()
		if err != nil {
			select {
			case <-cut:
				return true
			default:
			}
			return errors.Is(err, io.EOF)
		}
		r.take(&e)
	}
	return true
}

// take checks an event.
func (r *hearing) take(e *sse.Event) {
	if e.Retry >= 0 {
		r.retry = e.Retry
	}
	if e.HasID {
		r.cursor = e.ID
		if e.HasData && len(e.Data) > 0 {
			if r.ids[e.ID] {
				r.fault("the event %s comes twice", e.ID)
			}
			r.ids[e.ID] = true
		}
	}
	if e.HasData && len(e.Data) > 0 {
		r.message(e.Data)
	}
}

func (r *hearing) message(data []byte) {
	var m struct {
		ID     any
		Method string
		Params struct {
			Message       string
			Progress      int
			ProgressToken string
			By            string
			N             int
		}
	}
	if err := json.Unmarshal(data, &m); err != nil {
		r.fault("%q is not JSON", data)
		return
	}
	switch {
	case m.Method == "":
		if m.ID != r.name {
			r.fault("a response to %v: %s", m.ID, data)
		}
		r.response = string(data)
	case m.Method == "notifications/progress":
		if m.Params.ProgressToken != r.name || m.Params.Progress != r.progress+1 {
			r.fault("after progress %d: %s", r.progress, data)
		}
		r.progress = m.Params.Progress
	case m.Method == "notifications/message" && r.name == "":
		r.tick(m.Params.By, m.Params.N)
	case m.Method == "elicitation/create":
		r.answers.Go(func() { r.c.answer(r.v, fmt.Sprint(m.ID), m.Params.Message) })
	case m.Method == "notifications/cancelled": // a question is withdrawn
	default:
		r.fault("gets %s", data)
	}
}

// tick checks a notification.
func (r *hearing) tick(by string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.tickers) - 1
	switch next, known := r.heard[by]; {
	case !known && (n == 0 || last < 0 || r.c.legacy):
		r.tickers = append(r.tickers, by)
	case known && r.tickers[last] == by && (n == next || n > next && r.c.legacy): // who cannot poll may miss some
	default:
		r.fault("notification %d of %s comes, and %d is next, after %v", n, by, next, r.tickers)
	}
	r.heard[by] = n + 1
}

// call calls a tool, and polls until it has the response.
func (c *guest) call(v *visit, name string, p plan) {
	r := newHearing(c, v, name)
	defer r.answers.Wait()
	defer c.cancelLater(v, &p)()
	raw, _ := json.Marshal(p)
	params := strings.Replace(string(raw), "{", fmt.Sprintf(`{"_meta":{"progressToken":%q},`, name), 1)
	c.f.say("%s: begins, %d steps, %v", name, p.Steps, p.takes())
	began := time.Now()
	res := c.send(name, http.MethodPost, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":%s}`, name, params), v,
		http.StatusOK, http.StatusAccepted)
	if res != nil && res.StatusCode == http.StatusAccepted { // cancelled, without a stream
		if c.whole(name, res); !r.excused() {
			r.fault("no response")
		}
		return
	}
	for res != nil {
		clean := r.read(res, nil)
		if r.response != "" || r.excused() {
			break
		}
		if !clean || r.cursor == "" || c.legacy {
			r.fault("the connection ends (cleanly: %v) without a response, cursor %q", clean, r.cursor)
			return
		}
		kit.Elapse(r.retry)
		what := name + " polls " + kit.ShortID(r.cursor)
		if res = c.send(what, http.MethodGet, r.cursor, "", v, http.StatusOK, http.StatusNoContent); res != nil && res.StatusCode == http.StatusNoContent {
			c.whole(what, res)
			if !r.excused() {
				r.fault("nothing is left")
			}
			return
		}
	}
	if r.response != "" {
		r.judge(began)
	}
}

// excused reports whether the guest itself has ended the call.
func (r *hearing) excused() bool {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.v.deleted || r.v.cancelled[r.name]
}

// bound is how long after its end a call may take to reach a guest.
const bound = 2*lease + 600*time.Millisecond + 5*time.Second

// judge checks the response.
func (r *hearing) judge(began time.Time) {
	var m struct {
		Result *struct {
			Run string
			N   int
		}
		Error *rejoin.Error
	}
	_ = json.Unmarshal([]byte(r.response), &m)
	f := r.c.f
	f.works.mu.Lock()
	w := f.works.of[r.name]
	var is work
	if w != nil {
		is = *w
	}
	f.works.mu.Unlock()
	f.say("%s: %.120s (by %v)", r.name, r.response, r.by)
	switch {
	case m.Result != nil && (w == nil || !is.over || m.Result.Run != r.name || m.Result.N != is.sent || r.progress != is.sent && !r.c.json):
		r.fault("%d steps, %d of them heard, and the result %s", is.sent, r.progress, r.response)
	case m.Result != nil:
		if late := time.Since(is.ended); late > bound {
			r.fault("its result takes %v", late)
		}
	case m.Error == nil:
		r.fault("neither a result nor an error: %s", r.response)
	case r.excused():
	case m.Error.Reason() != rejoin.ReasonShutdown:
		r.fault("%s", r.response)
	default:
		r.judgeShutdown(w, began)
	}
}

// judgeShutdown checks that a process whose grace was over has ended the call: that of its tool, or the one that forwarded it for a guest that could not
// come back.
func (r *hearing) judgeShutdown(w *work, began time.Time) {
	f := r.c.f
	suspects := []*pod{}
	if w != nil {
		suspects = append(suspects, w.by)
	}
	if r.c.legacy || r.c.json {
		for _, p := range f.started() {
			if p.host == r.by[0] {
				suspects = append(suspects, p)
			}
		}
	}
	for _, p := range suspects {
		if !p.isLate() {
			continue
		}
		p.mu.Lock()
		late := time.Since(p.deadline)
		p.mu.Unlock()
		f.works.mu.Lock()
		f.works.shutdowns++
		f.works.mu.Unlock()
		if late > bound && time.Since(began) > bound {
			r.fault("its error takes %v", late)
		}
		return
	}
	r.fault("fails before the grace is over: %s", r.response)
}

// started are all processes there were.
func (f *fleet) started() []*pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*pod(nil), f.all...)
}

// listen reads the standalone stream until the guest has no more calls, and then what is missing.
func (c *guest) listen(v *visit) {
	r := newHearing(c, v, "")
	for first := true; ; first = false {
		select {
		case <-v.over:
			if c.legacy || c.isDeleted(v) || c.f.failed() || r.complete() {
				return
			}
		default:
		}
		if !first {
			kit.Elapse(r.retry)
		}
		if c.f.failed() || c.isDeleted(v) {
			return
		}
		res := c.send("listens from "+kit.ShortID(r.cursor), http.MethodGet, r.cursor, "", v, http.StatusOK)
		if res == nil {
			return
		}
		if !r.read(res, r.until(v)) && !c.isDeleted(v) {
			r.fault("the standalone stream breaks")
		}
	}
}

// until is closed when the guest need not listen any more.
func (r *hearing) until(v *visit) <-chan struct{} {
	enough := make(chan struct{})
	go func() {
		defer close(enough)
		select {
		case <-v.over:
		case <-r.c.ctx.Done():
			return
		}
		for end := time.Now().Add(bound); !r.c.legacy && !r.complete() && time.Now().Before(end) && !r.c.isDeleted(v); {
			kit.Elapse(100 * time.Millisecond)
		}
	}()
	return enough
}

// complete reports whether the guest has heard all that the tickers have sent so far, except before it first listened.
func (r *hearing) complete() bool {
	f := r.c.f
	f.works.mu.Lock()
	defer f.works.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	tickers := f.works.tickers[kit.KeyOf(r.v.id)]
	if len(r.tickers) == 0 {
		return false
	}
	for len(tickers) > 0 && tickers[0].name != r.tickers[0] {
		tickers = tickers[1:]
	}
	for _, t := range tickers {
		if t.sent > r.heard[t.name] {
			return false
		}
	}
	return true
}
