package torture_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// work is a call, as its tool sees it.
type work struct {
	by    *pod
	sent  int // progress
	over  bool
	ended time.Time
	cause error // why its context ended; nil: it has returned by itself
}

// ticker sends numbered notifications in one session of one process, until the session ends there.
type ticker struct {
	name string
	sent int // that were taken
}

// works is what the tools have done.
type works struct {
	mu        sync.Mutex
	of        map[string]*work     // by the name of the call
	tickers   map[string][]*ticker // by session, in the order in which its owners opened it
	shutdowns int                  // responses that say so
}

// plan is what a guest wants of a tool.
type plan struct {
	Name         string
	Steps, Pause int // the pause in milliseconds, after each step
	Asks         bool
	Leaves       bool // it disconnects its client in the middle
}

func (p *plan) takes() time.Duration { return time.Duration(p.Steps*p.Pause) * time.Millisecond }

// worker is the app of a pod.
type worker struct {
	rejoin.App

	f *fleet
	p *pod
}

func (f *fleet) app(p *pod) rejoin.App {
	a := &worker{f: f, p: p}
	a.App = rejoin.NewApp(kit.Info, kit.RawResults(a.handle))
	return a
}

const ticks = "Ticks" // the header field of guests that want notifications

func (a *worker) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	app, err := a.App.Open(r, s, state)
	if r.Header.Get(ticks) != "" {
		go a.tick(s)
	}
	return app, err
}

// tick sends notifications as long as the session is here.
func (a *worker) tick(s *rejoin.Session) {
	t := &ticker{}
	a.f.works.mu.Lock()
	key := kit.KeyOf(s.ID())
	t.name = fmt.Sprintf("%s#%d", a.p.host, len(a.f.works.tickers[key]))
	a.f.works.tickers[key] = append(a.f.works.tickers[key], t)
	a.f.works.mu.Unlock()
	every := time.NewTicker(700 * time.Millisecond)
	defer every.Stop()
	for {
		a.f.works.mu.Lock() // it is read at once, also while Notify waits
		n := t.sent
		t.sent++
		a.f.works.mu.Unlock()
		if s.Notify(context.Background(), "notifications/message", map[string]any{"by": t.name, "n": n}) != nil {
			a.f.works.mu.Lock()
			t.sent--
			a.f.works.mu.Unlock()
			return
		}
		select {
		case <-every.C:
		case <-s.Done():
			return
		}
	}
}

var errTwice = errors.New("it has run before")

func (a *worker) handle(ctx context.Context, r *rejoin.Request) (any, error) {
	var o plan
	if err := r.Bind(&o); err != nil {
		return nil, err
	}
	w := &work{by: a.p}
	a.f.works.mu.Lock()
	old := a.f.works.of[o.Name]
	a.f.works.of[o.Name] = w
	a.f.works.mu.Unlock()
	if old != nil {
		a.f.fault("%s: runs at %s, and has run at %s", o.Name, a.p.host, old.by.host)
		return nil, errTwice
	}
	err := a.work(ctx, &o, w)
	a.f.works.mu.Lock()
	defer a.f.works.mu.Unlock()
	w.over, w.ended, w.cause = true, time.Now(), context.Cause(ctx)
	if err != nil {
		a.f.say("%s: at %s: %v, %v", o.Name, a.p.host, err, w.cause)
		if w.cause == nil {
			a.f.fault("%s: at %s: %v", o.Name, a.p.host, err)
		}
		return nil, err
	}
	return map[string]any{"run": o.Name, "n": w.sent}, nil
}

// work takes the steps.
func (a *worker) work(ctx context.Context, o *plan, w *work) error {
	h := rejoin.HandleFromContext(ctx)
	for i := range o.Steps {
		if err := h.Progress(float64(i+1), 0, ""); err != nil {
			if errors.Is(err, rejoin.ErrSessionEnded) { // its context ends too, with the cause that is looked at
				<-ctx.Done()
			}
			return fmt.Errorf("progress %d: %w", i+1, err)
		}
		a.f.works.mu.Lock()
		w.sent++
		a.f.works.mu.Unlock()
		switch i {
		case o.Steps / 3:
			if o.Leaves {
				if err := h.CloseStream(0); err != nil && !errors.Is(err, rejoin.ErrNotResumable) {
					a.f.say("%s: CloseStream: %v", o.Name, err)
				}
			}
		case o.Steps / 2:
			var answer struct{ To string }
			if !o.Asks {
				break
			}
			if err := h.Ask(ctx, "elicitation/create", map[string]any{"message": o.Name, "requestedSchema": struct{}{}}, &answer); err != nil {
				return fmt.Errorf("its question: %w", err)
			}
			if answer.To != o.Name {
				a.f.fault("%s: the answer is to %q", o.Name, answer.To)
			}
		}
		select {
		case <-time.After(time.Duration(o.Pause) * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
