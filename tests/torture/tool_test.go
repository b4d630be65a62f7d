package torture_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// run is a call of a tool, as the tool sees it.
type run struct {
	session string // key
	by      *machine
	sent    int  // messages that were taken for its own stream
	asides  int  // and for the standalone stream
	over    bool // it has returned
	end     time.Time
	state   int
}

// tellerApp is the app of the torture test: its tools send numbered messages. Sometimes it fails to open a session.
type tellerApp struct {
	tt    *torture
	p     *machine
	inner rejoin.App
}

func (tt *torture) app(p *machine) rejoin.App {
	a := &tellerApp{tt: tt, p: p}
	a.inner = rejoin.NewApp(kit.Info, kit.RawResults(a.handle))
	return a
}

var errUnopened = errors.New("this app cannot open the session")

func (a *tellerApp) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	tt, key := a.tt, kit.KeyOf(s.ID())
	tt.mu.Lock()
	tt.refs[s.Ref()] = key
	tt.mu.Unlock()
	if id := r.Header.Get("Mcp-Session-Id"); id != "" {
		if key != kit.KeyOf(id) {
			tt.fault("%s: asked to open another session than the request's", a.p.name)
		}
		tt.mu.Lock()
		t := tt.tale(key)
		switch n := t.random.IntN(24); {
		case tt.calm || t.failed > 1 || tt.moods.planned:
		case n < 2:
			t.failed++
			tt.mu.Unlock()
			tt.say("%s: cannot open %s", a.p.name, short(key))
			return nil, errUnopened
		case n == 2:
			t.failed++
			tt.mu.Unlock()
			tt.say("%s: takes too long to open %s", a.p.name, short(key))
			kit.Elapse(7 * time.Second)
			return nil, errUnopened
		}
		has, _ := strconv.Atoi(string(state))
		if has < t.promised && !t.lossy {
			defer tt.fault("%s: opens %s with the state %d, and %d was promised", a.p.name, short(key), has, t.promised)
		}
		tt.mu.Unlock()
	}
	return a.inner.Open(r, s, state)
}

// order is what a client wants of a tool.
type order struct {
	Name            string
	Messages, Pause int // the pause in milliseconds, after each message
	Seed            uint64
}

func (a *tellerApp) handle(ctx context.Context, r *rejoin.Request) (any, error) {
	var o order
	if err := r.Bind(&o); err != nil {
		return nil, err
	}
	h := rejoin.HandleFromContext(ctx)
	tt, key := a.tt, kit.KeyOf(h.Session().ID())
	me := tt.begin(o.Name, key, a.p)
	if me == nil {
		return nil, errUnopened
	}
	random := rand.New(rand.NewPCG(tt.seed, o.Seed))
	for i := range o.Messages {
		if random.IntN(4) == 0 {
			a.aside(h, me, o.Name)
		}
		if err := h.Notify("notifications/message", map[string]any{"run": o.Name, "n": i}); err != nil {
			tt.explain(ctx, o.Name, me, "message "+strconv.Itoa(i)+" was not taken", err)
			break
		}
		tt.count(&me.sent)
		switch random.IntN(12) {
		case 0, 1:
			err := h.CloseStream(time.Duration(random.IntN(2000)) * time.Millisecond)
			tt.say("%s: CloseStream: %v", o.Name, err)
		case 2:
			a.save(h, me)
		}
		select {
		case <-time.After(time.Duration(random.IntN(o.Pause+1)) * time.Millisecond):
		case <-ctx.Done():
			tt.explain(ctx, o.Name, me, "was cancelled", context.Cause(ctx))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if random.IntN(3) == 0 {
		a.save(h, me)
	}
	tt.mu.Lock()
	defer tt.mu.Unlock()
	me.over, me.end = true, time.Now()
	return map[string]any{"run": o.Name, "n": me.sent, "state": me.state}, nil
}

// aside sends a message on the standalone stream.
func (a *tellerApp) aside(h *rejoin.Handle, me *run, name string) {
	err := h.Session().Notify(context.Background(), "notifications/message", json.RawMessage(`{"run":"`+name+`","n":`+strconv.Itoa(me.asides)+`,"aside":true}`))
	if err == nil {
		a.tt.count(&me.asides)
	}
}

// save saves a state that is newer than all earlier ones.
func (a *tellerApp) save(h *rejoin.Handle, me *run) {
	t := a.tt.taleOf(me.session)
	t.saving.Lock()
	defer t.saving.Unlock()
	a.tt.mu.Lock()
	t.state++
	state := t.state
	a.tt.mu.Unlock()
	if h.Session().SaveState([]byte(strconv.Itoa(state))) == nil {
		me.state = state
	}
}

// begin notes that a tool has been called. It returns nil if it was called before: nothing runs twice.
func (tt *torture) begin(name, key string, p *machine) *run {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if old := tt.runs[name]; old != nil {
		tt.fault("%s: runs at %s, and has run at %s", name, p.name, old.by.name)
		return nil
	}
	me := &run{session: key, by: p}
	tt.runs[name] = me
	return me
}

func (tt *torture) count(n *int) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	*n++
}

// explain fails the test if nothing explains that a tool was disturbed.
func (tt *torture) explain(_ context.Context, name string, me *run, what string, cause error) {
	tt.say("%s: %s: %v", name, what, cause)
	taken := tt.engine.taken(me.session)
	tt.mu.Lock()
	t := tt.tale(me.session)
	why := t.deleted || t.gone || t.lost || taken > 0 || me.by.dead || me.by.closing || t.cancelled[name] || me.isTooLong()
	tt.mu.Unlock()
	if !why {
		tt.fault("%s: %s, and nothing explains it: %v", name, what, cause)
	}
}

// tale is what is known of a session, besides what the engine knows. The torture's mutex guards it, but for saving.
type tale struct {
	random    *rand.Rand
	failed    int // times that the app did not open it
	state     int // the last that was saved
	promised  int // by a result that has come
	known     bool
	deleted   bool // its client has sent a DELETE
	gone      bool // its client knows that it has ended
	unended   bool // the DELETE was answered, and did not reach the engine
	lossy     bool // data may have been lost with its owner and the engine
	lost      bool // the record too
	cancelled map[string]bool
	saving    sync.Mutex
}

// tale returns the tale of a session. The mu is held.
func (tt *torture) tale(key string) *tale {
	t := tt.tales[key]
	if t == nil {
		t = &tale{random: tt.rand("tale" + strconv.Itoa(len(tt.tales))), cancelled: map[string]bool{}}
		tt.tales[key] = t
	}
	return t
}

func (tt *torture) taleOf(key string) *tale {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return tt.tale(key)
}
