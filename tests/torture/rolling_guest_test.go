package torture_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// habits are what distinguishes guests.
type habits struct {
	legacy  bool // cannot poll
	json    bool // takes no streams
	listens bool
	cuts    bool // its connections break
}

// guest is a client of a fleet. It opens sessions one after the other. It sends nothing twice, so each request must be served at once.
type guest struct {
	habits

	f      *fleet
	name   string
	opened int
	count  int
	ctx    context.Context

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	visit  *visit
}

// visit is one session of a guest.
type visit struct {
	id        string
	over      chan struct{} // closed when the guest has no more calls
	deleted   bool          // guarded by the guest's mu, as what follows
	cancelled map[string]bool
	asked     map[string]bool // questions that have come
}

func (c *guest) dice(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// rest lets a while pass, in large steps, so that guests and processes often act at the same moment.
func (c *guest) rest(most int) {
	kit.Elapse(time.Duration(c.dice(most/250+1)) * 250 * time.Millisecond)
}

func (c *guest) fault(format string, args ...any) { c.f.fault(c.name+": "+format, args...) }

// live opens and ends sessions until the fleet is left alone.
func (c *guest) live() {
	for !c.f.isOver() {
		v := c.open()
		if v == nil {
			return
		}
		c.use(v)
	}
}

// send sends a request. It returns nil, and has noted a fault, if that is not answered with one of these statuses. A request of a session that is
// about to end may get 404.
func (c *guest) send(what, method, cursor, body string, v *visit, want ...int) *http.Response {
	r, _ := http.NewRequestWithContext(c.ctx, method, "http://fleet/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	switch {
	case method == http.MethodGet:
		r.Header.Set("Accept", "text/event-stream")
	case c.json:
		r.Header.Set("Accept", "application/json")
	}
	if c.listens {
		r.Header.Set(ticks, "yes")
	}
	if v != nil {
		r.Header.Set("Mcp-Session-Id", v.id)
		r.Header.Set("Mcp-Protocol-Version", c.version())
	}
	if cursor != "" {
		r.Header.Set("Last-Event-Id", cursor)
	}
	res, err := c.f.spray.RoundTrip(r)
	if err != nil {
		if !c.isDeleted(v) {
			c.fault("%s: %v", what, err)
		}
		return nil
	}
	if slices.Contains(want, res.StatusCode) {
		return res
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNotFound || !c.isDeleted(v) {
		c.fault("%s: %d from %s: %s", what, res.StatusCode, res.Header.Get("By"), text)
	}
	return nil
}

// whole reads a whole body.
func (c *guest) whole(what string, res *http.Response) string {
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.fault("%s: from %s: %v", what, res.Header.Get("By"), err)
	}
	return string(body)
}

func (c *guest) version() string {
	if c.legacy {
		return kit.Legacy
	}
	return kit.Polling
}

func (c *guest) isDeleted(v *visit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return v != nil && v.deleted
}

func (c *guest) open() *visit {
	c.opened++
	res := c.send("initialize", http.MethodPost, "", strings.Replace(kit.Initialize, kit.Polling, c.version(), 1), nil, http.StatusOK)
	if res == nil {
		return nil
	}
	v := &visit{id: res.Header.Get("Mcp-Session-Id"), over: make(chan struct{}), cancelled: map[string]bool{}, asked: map[string]bool{}}
	if body := c.whole("initialize", res); v.id == "" || !strings.Contains(body, `"result"`) {
		c.fault("initialize: %s", body)
		return nil
	}
	c.f.note(v.id, true)
	c.mu.Lock()
	c.visit = v
	c.mu.Unlock()
	c.f.say("%s: session %s by %s", c.name, short(kit.KeyOf(v.id)), res.Header.Get("By"))
	c.notify(v, "notifications/initialized", "")
	return v
}

func (c *guest) notify(v *visit, method, params string) {
	if res := c.send(method, http.MethodPost, "", `{"jsonrpc":"2.0","method":"`+method+`"`+params+`}`, v, http.StatusAccepted); res != nil {
		c.whole(method, res)
	}
}

// use works with a session, and ends it.
func (c *guest) use(v *visit) {
	var calls, listener sync.WaitGroup
	if c.listens {
		listener.Go(func() { c.listen(v) })
	}
	for range 3 + c.dice(12) {
		if c.f.isOver() {
			break
		}
		switch c.dice(10) {
		case 0, 1:
			c.ping(v)
		case 2:
			c.notify(v, "notifications/roots/list_changed", "")
		case 3, 4:
			name, p := c.plan()
			calls.Go(func() { c.call(v, name, p) })
		case 5, 6:
			name, p := c.plan()
			c.call(v, name, p)
		default:
			c.rest(9000)
		}
	}
	if c.dice(4) > 0 { // else the session ends with calls that run
		calls.Wait()
		close(v.over)
		listener.Wait()
		c.remove(v)
	} else {
		c.remove(v)
		close(v.over)
	}
	calls.Wait()
	listener.Wait()
}

// remove ends the session.
func (c *guest) remove(v *visit) {
	c.mu.Lock()
	v.deleted = true
	c.mu.Unlock()
	c.f.say("%s: ends %s", c.name, short(kit.KeyOf(v.id)))
	if res := c.send("DELETE", http.MethodDelete, "", "", v, http.StatusNoContent); res == nil {
		c.fault("DELETE has failed")
	} else {
		c.whole("DELETE", res)
	}
	c.f.note(v.id, false)
	if c.dice(2) == 0 {
		if res := c.send("ping", http.MethodPost, "", kit.Ping, v, http.StatusNotFound); res != nil {
			c.whole("ping", res)
		}
	}
}

func (c *guest) ping(v *visit) {
	res := c.send("ping", http.MethodPost, "", kit.Ping, v, http.StatusOK)
	if res == nil {
		return
	}
	by, body := res.Header.Get("By"), c.whole("ping", res)
	if late := c.f.isLate(by) && strings.Contains(body, rejoin.ReasonShutdown); !late && !strings.Contains(body, `"result"`) {
		c.fault("ping: %s: %s", by, body)
	}
}

// plan makes up a call.
func (c *guest) plan() (name string, p plan) {
	c.mu.Lock()
	c.count++
	name = c.name + strconv.Itoa(c.opened) + "-" + strconv.Itoa(c.count)
	c.mu.Unlock()
	p = plan{Name: name}
	switch n := c.dice(10); {
	case n < 3: // a quick one
		return name, p
	case n < 9:
		p.Steps, p.Pause = 1+c.dice(12), 250*(1+c.dice(6))
	default: // longer than the grace
		p.Steps, p.Pause = 8, 250*(12+c.dice(6))
	}
	p.Asks = !c.json && c.dice(4) == 0
	p.Leaves = c.dice(4) == 0
	return name, p
}

// cancelLater cancels a call after a while, perhaps.
func (c *guest) cancelLater(v *visit, p *plan) (wait func()) {
	if p.Steps == 0 || c.dice(8) > 0 {
		return func() {}
	}
	var w sync.WaitGroup
	w.Go(func() {
		c.rest(int(p.takes() / time.Millisecond))
		c.mu.Lock()
		v.cancelled[p.Name] = true
		deleted := v.deleted
		c.mu.Unlock()
		if !deleted {
			c.notify(v, "notifications/cancelled", fmt.Sprintf(`,"params":{"requestId":%q}`, p.Name))
		}
	})
	return w.Wait
}

// answer answers a question, once.
func (c *guest) answer(v *visit, id, to string) {
	c.mu.Lock()
	again := v.asked[id]
	v.asked[id] = true
	c.mu.Unlock()
	if again {
		c.fault("the question %s comes twice", id)
		return
	}
	c.rest(4000)
	if c.isDeleted(v) {
		return
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","to":%q}}`, id, to)
	if res := c.send("an answer", http.MethodPost, "", body, v, http.StatusAccepted); res != nil {
		c.whole("an answer", res)
	}
}
