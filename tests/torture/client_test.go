package torture_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// client is a client of the cluster, behind a balancer that sends many requests to the owner, as far as it knows it. It opens sessions one after
// the other.
type client struct {
	tt     *torture
	name   string
	opened int
	count  int
	slow   bool   // its calls take longer than two leases
	first  string // the name of its first call, where that matters

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	id     string     // of the session
	key    string
	owner  *machine
	over   bool // the client is about to end the session
}

func (c *client) dice(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// live opens and ends sessions until the history comes to its end.
func (c *client) live() {
	for first := true; first || !c.tt.isCalm(); first = false {
		c.forgetOwner(c.owner)
		if c.open() {
			c.useSession()
		}
		if c.tt.failed() {
			return
		}
	}
}

func (tt *torture) isCalm() bool {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return tt.calm
}

// late reports whether everything should be over. It is a fault then.
func (c *client) late(what string) bool {
	tt := c.tt
	tt.mu.Lock()
	late := !tt.deadline.IsZero() && time.Now().After(tt.deadline)
	tt.mu.Unlock()
	if late {
		tt.fault("%s: %s, in vain", c.name, what)
	}
	return late || tt.failed()
}

// choose is the balancer.
func (c *client) choose() *machine {
	c.tt.mu.Lock()
	defer c.tt.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tt.moods.robin {
		return c.tt.next()
	}
	if c.owner != nil && !c.owner.out && c.random.IntN(3) > 0 {
		return c.owner
	}
	for range c.random.IntN(len(c.tt.slots)) {
		c.tt.next()
	}
	return c.tt.next()
}

// next is the next process in turn, but for those that get nothing. The mu is held.
func (tt *torture) next() *machine {
	for range tt.slots {
		tt.turns++
		if p := tt.slots[tt.turns%len(tt.slots)]; !p.out {
			return p
		}
	}
	return tt.slots[0]
}

const patience = 20 * time.Second // for the head of a response

// request sends a request until a process takes it up. It returns nil if that takes too long, or if a process has died before it answered and the
// request must not be sent twice.
func (c *client) request(what, method, cursor, body string, again bool) (*wire, int) {
	tt := c.tt
	for !c.late(what) {
		p := c.choose()
		unreachable := p.Stats().Unreachable
		x := tt.send(p, method, c.id, cursor, body)
		status := 0
		if x != nil {
			status = x.answer(time.Now().Add(patience))
			tt.mustServe(c.name+": "+what, x, status)
		}
		switch {
		case x == nil:
			c.forgetOwner(p)
			kit.Elapse(300 * time.Millisecond)
			continue
		case status == 0:
			c.forgetOwner(p)
			x.end(true)
			tt.say("%s: %s: %s does not answer", c.name, what, p.name)
			if !again {
				return nil, 0
			}
			continue
		case status == http.StatusServiceUnavailable:
			tt.say("%s: %s: %s is not available", c.name, what, p.name)
			c.forgetOwner(p)
			kit.Elapse(time.Duration(700+c.dice(600)) * time.Millisecond)
			continue
		case status < 300 && c.id != "" && method != http.MethodGet && !x.forwarded.Load() && p.Stats().Unreachable == unreachable:
			before, n := x.served()
			tt.mustOwn(p, c.key, before, n, c.name+": "+what)
		case status == http.StatusNotFound:
			c.sessionLost(what, p)
		}
		if method != http.MethodGet {
			c.mu.Lock()
			c.owner = p
			c.mu.Unlock()
		}
		return x, status
	}
	return nil, 0
}

func (c *client) forgetOwner(p *machine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner == p {
		c.owner = nil
	}
}

// sessionLost notes that a process says that the session has ended.
func (c *client) sessionLost(what string, p *machine) {
	tt := c.tt
	owner, n := tt.engine.owner(c.key)
	tt.mu.Lock()
	t := tt.tale(c.key)
	why := t.deleted || t.lost || t.gone
	t.gone = true
	tt.mu.Unlock()
	tt.say("%s: %s: %s says 404", c.name, what, p.name)
	if !why {
		tt.fault("%s: %s: 404 from %s, and the session lives, owned by %s, epoch %d, owner %d", c.name, what, p.name, short(owner.Fence.Incarnation),
			owner.Fence.Epoch, n)
	}
}

// gone reports whether the session has ended.
func (c *client) gone() bool {
	t := c.tt.taleOf(c.key)
	c.tt.mu.Lock()
	defer c.tt.mu.Unlock()
	return t.gone
}

// open opens a session.
func (c *client) open() bool {
	c.mu.Lock()
	c.id, c.key, c.over = "", "", false
	c.mu.Unlock()
	c.opened++
	x, status := c.request("initialize", http.MethodPost, "", kit.Initialize, true)
	if x == nil {
		return false
	}
	if _, whole := x.body(time.Now().Add(patience)); !whole {
		return false
	}
	if status != http.StatusOK {
		c.tt.fault("%s: initialize: %d", c.name, status)
		return false
	}
	c.mu.Lock()
	c.id = x.head.Get("Mcp-Session-Id")
	c.key = kit.KeyOf(c.id)
	c.mu.Unlock()
	t := c.tt.taleOf(c.key)
	c.tt.mu.Lock()
	t.known = true
	c.tt.mu.Unlock()
	c.tt.say("%s: session %s at %s", c.name, short(c.key), x.p.name)
	return true
}

// useSession works with a session, and ends it.
func (c *client) useSession() {
	var others sync.WaitGroup
	if c.dice(3) > 0 {
		others.Go(c.listen)
	}
	for range 2 + c.dice(8) {
		if c.gone() || c.tt.isCalm() || c.tt.failed() {
			break
		}
		switch c.dice(10) {
		case 0:
			c.notify("notifications/roots/list_changed", "")
		case 1:
			c.invent()
		case 2, 3:
			kit.Elapse(time.Duration(c.dice(9000)) * time.Millisecond)
		case 4, 5:
			name := c.callName()
			others.Go(func() { c.call(name) })
		default:
			c.call(c.callName())
		}
	}
	if c.dice(4) > 0 { // else with calls on their way
		c.finish(&others)
	}
	c.end()
	others.Wait()
}

// finish waits for the calls that run. The listener ends with it.
func (c *client) finish(others *sync.WaitGroup) {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	others.Wait()
}

func (c *client) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

func (c *client) callName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	return c.name + strconv.Itoa(c.opened) + "-" + strconv.Itoa(c.count)
}

// end sends the DELETE.
func (c *client) end() {
	tt := c.tt
	if c.gone() {
		return
	}
	t := tt.taleOf(c.key)
	tt.mu.Lock()
	t.deleted = true
	tt.mu.Unlock()
	x, status := c.request("DELETE", http.MethodDelete, "", "", true)
	if x == nil {
		return
	}
	kit.Elapse(time.Second)
	tt.engine.mu.Lock()
	saga := tt.engine.sagaOf(c.key)
	ended, back := saga.ended, saga.back
	tt.engine.mu.Unlock()
	tt.mu.Lock()
	t.gone, t.unended = true, !ended
	calm, lost := tt.calm, t.lost
	tt.mu.Unlock()
	tt.say("%s: session %s has ended: %d", c.name, short(c.key), status)
	switch {
	case status != http.StatusNoContent && status != http.StatusNotFound:
		tt.fault("%s: DELETE: %d", c.name, status)
	case !ended && calm && status == http.StatusNoContent && !lost:
		tt.say("%s: the end of %s did not reach the engine", c.name, short(c.key))
	case ended && !back && !lost: // else an owner whose adoption is lost may not know yet
		x := tt.send(c.choose(), http.MethodPost, c.id, "", kit.Ping)
		if x == nil {
			return
		}
		if status := x.answer(time.Now().Add(patience)); status != 0 && status < 300 {
			body, _ := x.body(time.Now().Add(patience))
			if !strings.Contains(body, rejoin.ReasonOwnerLost) && !strings.Contains(body, rejoin.ReasonUnreachable) { // the owner was killed just now
				tt.fault("%s: a session that has ended answers %d at %s: %s", c.name, status, x.p.name, body)
			}
		}
	}
}

// notify sends a notification. cancels is the call that it cancels, if that is what it does.
func (c *client) notify(method, cancels string) {
	params := ""
	if cancels != "" {
		params = `,"params":{"requestId":"` + cancels + `"}`
	}
	x, status := c.request(method, http.MethodPost, "", `{"jsonrpc":"2.0","method":"`+method+`"`+params+`}`, true)
	if x != nil && status != http.StatusAccepted && status != http.StatusNotFound {
		c.tt.fault("%s: %s: %d", c.name, method, status)
	}
}

// invent polls with an event id that this session never had.
func (c *client) invent() {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	name := []byte("AAAAAAAAAAAAAAAAAAAAAA")
	for i := range 21 {
		name[i] = letters[c.dice(64)]
	}
	x, status := c.request("invented cursor", http.MethodGet, string(name)+".3", "", true)
	if x != nil && status != http.StatusBadRequest && status != http.StatusNotFound {
		c.tt.fault("%s: an invented cursor gets %d", c.name, status)
	}
	if x != nil {
		x.end(true)
	}
}

// call calls a tool, and polls until it has the response.
func (c *client) call(name string) {
	tt := c.tt
	o := order{Name: name, Messages: c.dice(9), Pause: []int{0, 300, 2500, 8000}[c.dice(4)], Seed: uint64(c.dice(1 << 30))}
	if c.dice(4) == 0 {
		o.Messages, o.Pause = 0, 0 // a quick one
	}
	if c.slow && name == c.first {
		o.Messages, o.Pause = 8, 10000
	}
	params, _ := json.Marshal(map[string]any{"name": name, "Messages": o.Messages, "Pause": o.Pause, "Seed": o.Seed})
	f := newFollower(c, name)
	tt.say("%s: begins, %d messages", name, o.Messages)
	if c.dice(8) == 0 {
		delay := time.Duration(c.dice(4000)) * time.Millisecond
		var cancelled sync.WaitGroup
		defer cancelled.Wait()
		cancelled.Go(func() {
			kit.Elapse(delay)
			t := tt.taleOf(c.key)
			tt.mu.Lock()
			t.cancelled[name] = true
			over := t.gone || t.deleted
			tt.mu.Unlock()
			if !over {
				c.notify("notifications/cancelled", name)
			}
		})
	}
	x, status := c.request(name, http.MethodPost, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":%s}`, name, params), false)
	for x != nil && status == http.StatusOK && !f.answered {
		f.follow(x)
		if f.answered || tt.failed() {
			break
		}
		if f.cursor == "" {
			f.noCursor(x)
			return
		}
		kit.Elapse(f.retry + time.Duration(c.dice(200))*time.Millisecond)
		if c.dice(10) == 0 {
			kit.Elapse(time.Duration(c.dice(15000)) * time.Millisecond)
		}
		x, status = c.request(name+" polls "+kit.ShortID(f.cursor), http.MethodGet, f.cursor, "", true)
	}
	if x != nil && !f.answered && status != http.StatusNotFound {
		f.refused(status)
	}
	if f.answered && c.dice(3) == 0 {
		f.replay()
	}
}

// listen reads the standalone stream until the session ends.
func (c *client) listen() {
	f := newFollower(c, "")
	for !c.isOver() && !c.gone() && !c.tt.failed() {
		x, status := c.request("listens from "+kit.ShortID(f.cursor), http.MethodGet, f.cursor, "", true)
		if x == nil || status == http.StatusNotFound {
			return
		}
		if status != http.StatusOK {
			c.tt.fault("%s: listening: %d", c.name, status)
			return
		}
		f.follow(x)
		kit.Elapse(f.retry + time.Duration(c.dice(300))*time.Millisecond)
	}
}
