package cluster_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// end ends a process without a word, and its connections with it. Nobody knows yet.
func (w *world) end(n int) {
	w.processes[n].link.SetLink(clustertest.Refused)
	w.net.Refuse(fmt.Sprint(n), true)
	w.net.Reset(fmt.Sprint(n))
}

// revive lets a process that ended so reach all others again, as if it had only been stopped.
func (w *world) revive(n int) {
	w.processes[n].link.SetLink(clustertest.Up)
	w.net.Refuse(fmt.Sprint(n), false)
}

// secondDeath is when the process dies that adopts a session. plan is called before the request that adopts; die ends the process.
type secondDeath struct {
	plan   func(p *process, a *watched, die func())
	opened int  // how often App.Open was called there
	told   bool // Open has succeeded, so that the app is told that its session has moved
	atOnce bool // the engine does not know of the adoption, so the next one need not wait
	after  bool // it dies when it has answered
}

var secondDeaths = map[string]secondDeath{
	"before the engine has the adoption": {
		plan: func(p *process, _ *watched, die func()) {
			p.link.SetScript(atAdopt(die, clustertest.Fault{Delay: time.Second}))
		},
		atOnce: true,
	},
	"before the answer of the engine has come": {
		plan: func(p *process, _ *watched, die func()) {
			p.link.SetScript(atAdopt(func() { time.AfterFunc(100*time.Millisecond, die) }, clustertest.Fault{DelayAnswer: 10 * time.Second}))
		},
	},
	"while App.Open runs": {
		plan: func(_ *process, a *watched, die func()) {
			a.opens(func(*http.Request, *rejoin.Session, []byte) error {
				die()
				kit.Elapse(3 * time.Second)
				return nil
			})
		},
		opened: 1, told: true,
	},
	"while App.Open hangs": {
		plan: func(_ *process, a *watched, die func()) {
			a.opens(func(*http.Request, *rejoin.Session, []byte) error {
				die()
				kit.Elapse(30 * time.Second)
				return nil
			})
		},
		opened: 1, told: true,
	},
	"while App.Open runs, which fails then": {
		plan: func(_ *process, a *watched, die func()) {
			a.opens(func(*http.Request, *rejoin.Session, []byte) error {
				die()
				return errOpen
			})
		},
		opened: 1,
	},
	"just after App.Open has returned": {
		plan: func(_ *process, a *watched, die func()) {
			a.opens(func(*http.Request, *rejoin.Session, []byte) error {
				go die()
				return nil
			})
		},
		opened: 1, told: true,
	},
	"when it has answered": {
		plan:   func(*process, *watched, func()) {},
		opened: 1, told: true, after: true,
	},
}

func atAdopt(do func(), fault clustertest.Fault) func(clustertest.Call) clustertest.Fault {
	return func(c clustertest.Call) (f clustertest.Fault) {
		if c.Op == "adopt" && c.N == 1 {
			do()
			f = fault
		}
		return f
	}
}

// The process that adopts a session dies during the adoption or just after it. The next one adopts the session in time, with all that the first owner has
// recorded; each call ends once. If both owners were alive after all, they learn that it has moved, and serve it through the third.
func TestTheAdopterDiesToo(t *testing.T) {
	for name, second := range secondDeaths {
		for _, instant := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, instant=%v", name, instant), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) { second.run(t, instant) })
			})
		}
	}
}

func (d *secondDeath) run(t *testing.T, instant bool) {
	t.Helper()
	o := options{instant: instant}
	of := watch(&o)
	w := newWorld(t, o)
	w.add(o)
	done, tool := w.run(t, 2)
	tool.Returns("done")
	running, _ := w.run(t, 1)
	listen := w.Listen()
	of(0).send(t, "a")
	listen.Cut()
	of(0).send(t, "b")
	require.NoError(t, of(0).last().s.SaveState([]byte("saved")))
	elapse(time.Second)
	w.end(0)
	elapse(2 * lease)

	deaths := make(chan time.Time, 1)
	die := func() {
		w.end(1)
		deaths <- time.Now()
	}
	d.plan(w.processes[1], of(1), die)
	w.use(1)
	first := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
	if d.after {
		require.Equal(t, served, first.Summary())
		die()
	}
	died := <-deaths
	w.use(2)
	calls := []*rejointest.Call{running, listen}
	follow(calls, func() bool {
		return time.Since(died) > inTime || isOver(running) && listen.Open() == 1 && w.processes[2].Stats().Adopted > 0
	})
	require.LessOrEqual(t, time.Since(died), inTime, running)
	if d.atOnce {
		require.LessOrEqual(t, time.Since(died), 2*maxRetry)
	}
	require.Equal(t, rejoin.ReasonOwnerLost, running.Err().Reason())
	require.Len(t, running.Messages(), 2)
	require.Equal(t, `"done"`, string(done.Result()))
	require.Len(t, done.Messages(), 3)
	of(2).send(t, "c")
	require.Len(t, listen.Messages(), 3, "a, b and c, in one connection or more: %v", kit.Summaries(listen))
	require.Equal(t, "saved", string(of(2).last().state))
	require.Equal(t, 1, of(2).times())
	elapse(10 * time.Second)
	require.NotEqual(t, "open", first.Summary(), "nobody waits for ever")

	w.revive(0)
	w.revive(1)
	elapse(5 * lease) // App.Open that hangs returns, too
	require.Equal(t, d.opened, of(1).times())
	requireMoved(t, of(0), true)
	requireMoved(t, of(1), d.told)
	for n, p := range w.processes {
		require.Equal(t, served, w.ping(t, n, w.session()))
		require.EqualValues(t, n/2, p.Stats().Sessions, "process %d", n)
	}
	require.Empty(t, of(2).causes())
	require.Equal(t, 1, of(2).times())
}

// requireMoved requires that an app was told once that its session has moved, or was told nothing.
func requireMoved(t *testing.T, a *watched, told bool) {
	t.Helper()
	causes := a.causes()
	if !told {
		require.Empty(t, causes)
		return
	}
	require.Len(t, causes, 1)
	require.ErrorIs(t, causes[0], rejoin.ErrMoved)
}
