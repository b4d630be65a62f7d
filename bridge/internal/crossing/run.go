package crossing

import (
	"errors"
	"flag"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

var count = flag.Int("crossings", 64, "sessions of each scenario")

const (
	atOnce = 8 // sessions that run at the same time
	idle   = time.Minute
)

// Run runs all scenarios. newApp returns an app with Tools and a Resource; it is called in the bubble of each scenario.
func Run(t *testing.T, newApp func(*Handlers) rejoin.App) {
	t.Helper()
	for _, e := range slices.Sorted(maps.Keys(ends)) {
		for _, what := range slices.Sorted(maps.Keys(operations)) {
			t.Run(e+" and "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &scenario{t: t, end: ends[e], operation: what, handlers: &Handlers{giveUp: make(chan struct{}), errors: map[string]int{}}}
					s.run(newApp(s.handlers))
				})
			})
		}
	}
}

// scenario is a way in which sessions end, and an operation that runs at the same time.
type scenario struct {
	t         *testing.T
	end       end
	tasks     bool // of calls that become tasks
	taskEnd   taskEnd
	operation string
	handlers  *Handlers
	app       rejoin.App
	tracker   *Tracker
	srv       *rejoin.Server
}

func (s *scenario) run(app rejoin.App) {
	s.app = app
	defer s.cleanUp()
	s.round(2 * atOnce) // creates what is created only once
	held, goroutines := objects(), runtime.NumGoroutine()
	s.round(*count)
	if grown := objects() - held; grown > int64(*count)/2+200 { // of other tests, and of the runtime
		s.t.Errorf("after %d sessions there are %d objects more", *count, grown)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		s.t.Errorf("%d goroutines are left", now-goroutines)
	}
}

// cleanUp ends what still runs, so that the bubble can end.
func (s *scenario) cleanUp() {
	s.srv.Close()
	close(s.handlers.giveUp)
	synctest.Wait()
	for text, n := range s.handlers.errors {
		s.t.Errorf("%d times: %s", n, text)
	}
}

// round runs n sessions, and checks that nothing is left of them.
func (s *scenario) round(n int) {
	s.tracker = &Tracker{}
	if s.srv != nil {
		s.srv.Close()
	}
	s.serve()
	for range n / atOnce {
		if s.tasks {
			s.taskBatch()
		} else {
			s.batch()
		}
		synctest.Wait()
		if now := s.srv.Stats(); now.Sessions+now.Streams+now.Connections+now.Parked+now.Tasks+now.TasksRunning+now.StoredBytes != 0 {
			s.t.Fatalf("left: %+v", now)
		}
		if running := s.handlers.running.Load(); running > 0 {
			s.t.Fatalf("%d handlers run on", running)
		}
		if s.end.all != nil || s.taskEnd.all != nil {
			s.srv.Close()
			s.serve()
		}
	}
	<-time.After(time.Hour) // a stopped timer keeps its function until its time has come
	if sessions, calls, notes, requests := s.tracker.Remaining(); sessions+calls+notes+requests > 0 {
		s.t.Errorf("of %d sessions %d are left, %d calls, %d notifications and %d modern requests", n, sessions, calls, notes, requests)
	}
	*s.tracker = Tracker{} // weak pointers are objects too
}

func (s *scenario) serve() {
	cfg := rejoin.Config{Logger: slog.New(slog.DiscardHandler), SessionIdleTTL: idle, Eras: rejoin.EraLegacy}
	if s.tasks {
		cfg.Eras, cfg.Tasks.TTL = rejoin.EraModern, taskTTL
		cfg.Policy = rejoin.Policy{TaskAfter: taskAfter, AbandonAfter: abandon, MaxRuntime: maxRuntime}
	}
	srv, err := rejoin.NewServer(s.tracker.App(s.app), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.srv = srv
}

// batch prepares some clients, and then starts their operations and the ends of their sessions at the same time.
func (s *scenario) batch() {
	clients := make([]*client, atOnce)
	acts := make([]func(), atOnce)
	errs := make([]error, atOnce)
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() { clients[i], acts[i], errs[i] = s.prepare() })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
	for i, c := range clients {
		group.Go(func() { s.delay(); acts[i]() })
		if s.end.each != nil {
			group.Go(func() { s.delay(); s.end.each(c) })
		}
	}
	if s.end.all != nil {
		group.Go(func() { s.delay(); s.end.all(s.srv) })
	}
	if s.end.idle {
		<-time.After(idle + time.Second)
	} else if s.operation == opening {
		group.Wait()
	}
	if s.end.idle || s.operation == opening {
		for _, c := range clients { // sessions that were not idle, or that opened too late to end
			endSession(c)
		}
	}
	group.Wait()
}

// prepare opens a session, if that is not the operation, and prepares the operation.
func (s *scenario) prepare() (*client, func(), error) {
	c := newClient(s.srv)
	c.handlersWait = s.operation == initializedFirst || s.operation == roots
	if s.operation == opening {
		act, err := operations[opening](c)
		return c, act, err
	}
	if err := c.open(); err != nil {
		return nil, nil, err
	}
	if s.operation != initializedFirst {
		initialized(c)
	}
	act, err := operations[s.operation](c)
	return c, act, err
}

// delay waits for a random moment. If sessions end by idleness, it first waits for the instant in which they end.
func (s *scenario) delay() {
	if s.end.idle {
		<-time.After(idle)
	}
	for range random(1 << random(8)) {
		runtime.Gosched()
	}
}
