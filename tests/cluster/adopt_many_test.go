package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A session with as many parked calls as it may have is adopted. Each call gets its result if it was recorded, else owner_lost; exactly once, after its own
// events, and in order, though all of them are asked for at once.
func TestASessionWithManyParkedCallsIsAdopted(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			const calls = 64
			w := newWorld(t, options{instant: instant})
			var all []*rejointest.Call
			var tools []*kit.ManualTool
			for i := range calls {
				call := w.CallTool("x", nil)
				tool := w.processes[0].next()
				for n := range i % 4 {
					require.NoError(t, tool.Progress(float64(n+1), 0, ""))
				}
				all, tools = append(all, call), append(tools, tool)
			}
			elapse(time.Second) // the streams have begun, also those without an event
			for _, tool := range tools {
				require.NoError(t, tool.CloseStream(time.Hour))
			}
			require.Len(t, kit.Sessions(w.processes[0].Server)[0].Streams, calls+1)
			for i, tool := range tools {
				if i%2 == 0 {
					tool.Returns(i)
				}
			}
			elapse(time.Second)
			w.kill(0)
			var gets []*kit.Response
			began := time.Now()
			for _, i := range rand.Perm(calls) {
				header := []string{"Last-Event-ID", all[i].IDs()[0], "Mcp-Protocol-Version", kit.Polling}
				gets = append(gets, w.ask(t, 1, http.MethodGet, w.session(), "", header...))
			}
			w.use(1)
			for i, call := range all {
				call.PollFrom(call.IDs()[0])
				elapse(20 * time.Millisecond) // polls of one client are served one after the other
				words := []string{"200 sse primer@0"}
				for n := range i % 4 {
					words = append(words, fmt.Sprint(n+1, ":progress"))
				}
				switch i % 2 {
				case 0:
					words = append(words, fmt.Sprint(i%4+1, ":result"))
				default:
					words = append(words, fmt.Sprintf("%d~:error(-32000,%s) owner_lost", i%4, call.ID()))
				}
				require.Equal(t, strings.Join(append(words, "closed"), " "), kit.Last(call))
				if i%2 == 0 {
					require.Equal(t, fmt.Sprint(i), string(call.Result()))
				}
				require.Len(t, call.Messages(), i%4+1, "each once")
			}
			answered := map[string]int{}
			for _, get := range gets {
				require.True(t, strings.HasSuffix(get.Summary(), " ended"), get.Summary())
				answered[get.Body.String()[strings.LastIndex(get.Body.String(), `"id":`):]]++
			}
			require.Len(t, answered, calls, "each asked for its own")
			require.LessOrEqual(t, time.Since(began), 2*time.Second)
			require.EqualValues(t, 1, w.processes[1].Stats().Adopted)
		})
	}
}

// Many processes adopt many sessions at the same time, some of whose App.Open fail, hang, panic or end their goroutine, over rounds. Each session has
// one owner at the end of each, and nothing is left of the rest.
func TestManyAdopters(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const adopters, sessions, rounds = 6, 8, 15 - 6*(kit.Fewer/20)
		o := options{config: func(c *rejoin.Config) { c.Logger = kit.QuietLogger() }} // the other one keeps all lines
		of := watch(&o)
		w := newWorld(t, o)
		for range adopters - 1 {
			w.add(o)
		}
		w.Delete()
		for n := range w.processes {
			of(n).opens(func(_ *http.Request, _ *rejoin.Session, state []byte) error {
				if state == nil {
					return nil
				}
				return failSometimes(rand.IntN(12))
			})
		}
		var objects uint64
		var resting int
		for round := range rounds {
			owner := round % len(w.processes)
			adoptAll(t, w, of, owner, sessions)
			w.net.CloseIdle()
			for n := range w.processes {
				of(n).forget()
			}
			elapse(2 * time.Hour)
			switch now := kit.HeapObjects(); round {
			case rounds / 3:
				objects, resting = now, len(kit.Goroutines())
			case rounds - 1:
				require.Less(t, int64(now)-int64(objects), int64(rounds*sessions*5), "objects are left")
				kit.RequireRested(t, resting)
			}
		}
	})
}

func failSometimes(dice int) error {
	switch dice {
	case 0:
		return errOpen
	case 1:
		panic("oops")
	case 2:
		runtime.Goexit()
	case 3:
		kit.Elapse(10 * time.Second)
		return errOpen
	case 4:
		kit.Elapse(10 * time.Second) // too late
	}
	return nil
}

// adoptAll opens sessions at a process and lets all others adopt them at once.
func adoptAll(t *testing.T, w *world, of func(int) *watched, owner, sessions int) {
	t.Helper()
	var ids []string
	for range sessions {
		ids = append(ids, w.open(t, owner))
		require.NoError(t, of(owner).last().s.SaveState([]byte("saved")))
	}
	elapse(time.Second)
	w.processes[owner].link.SetLink(clustertest.Refused)
	w.net.Refuse(fmt.Sprint(owner), true)
	elapse(2 * lease)
	var wait sync.WaitGroup
	for _, id := range ids {
		for n := range w.processes {
			if n == owner {
				continue
			}
			wait.Go(func() {
				kit.Elapse(time.Duration(rand.IntN(3)) * time.Millisecond)
				for began := time.Now(); ; kit.Elapse(time.Second) {
					sent := time.Now()
					res := kit.ServeNow(w.processes[n].Server, kit.InSession(t, id, kit.Ping))
					if waited := time.Since(sent); waited > lease {
						t.Errorf("a request has waited for %v", waited)
					}
					if res.Status == http.StatusOK && strings.Contains(res.Body.String(), `"result"`) {
						return
					}
					if res.Status == http.StatusNotFound { // App.Open has failed for three times in a row
						return
					}
					if time.Since(began) > 4*lease {
						t.Errorf("process %d is not served: %d %s", n, res.Status, res.Body.String())
						return
					}
				}
			})
		}
	}
	wait.Wait()
	owners := map[string]int{}
	for _, p := range w.processes {
		if p == w.processes[owner] {
			continue
		}
		for s := range p.Sessions() {
			owners[string(s.Ref)]++
		}
	}
	for ref, n := range owners {
		require.Equal(t, 1, n, "owners of %s", ref)
	}
	require.LessOrEqual(t, len(owners), sessions)
	require.NotEmpty(t, owners)
	w.processes[owner].link.SetLink(clustertest.Up)
	w.net.Refuse(fmt.Sprint(owner), false)
	elapse(2 * lease)
	require.Zero(t, w.processes[owner].Stats().Sessions, "the old owner knows")
	for _, id := range ids {
		require.Contains(t, []string{"204 ended", gone}, w.ask(t, owner, http.MethodDelete, id, "").Summary())
	}
	elapse(10 * time.Second)
	for n, p := range w.processes {
		require.Zero(t, p.Stats().Sessions, "process %d", n)
	}
	held, _ := w.engine.Usage()
	require.Zero(t, held)
}

// forget lets go of what was seen.
func (a *watched) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opened, a.ended, a.notes = nil, nil, nil
}
