package door_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const aNote = `{"jsonrpc":"2.0","method":"notifications/x"}`

// allocates returns how many bytes f allocates in all.
func allocates(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// batchesOf opens a session of the version that has batches.
func batchesOf(t *testing.T, s *rejoin.Server) string {
	t.Helper()
	id, _ := kit.OpenNow(t, s, strings.Replace(kit.Initialize, kit.Polling, kit.Batches, 1))
	return id
}

// A body of very many small messages allocates no more than one message of the same size.
func TestABodyOfManyMessagesCostsItsSize(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
		id, other := batchesOf(t, s), kit.OpenReady(t, s)
		const size = 4 << 20
		n := size/(len(aNote)+1) - 1
		batch := "[" + strings.Repeat(aNote+",", n) + aNote + "]"
		one := padded(len(batch))
		for _, length := range []int64{int64(len(batch)), -1} {
			send := func(session, body string, want int) int64 {
				r := kit.InSession(t, session, body, "Mcp-Protocol-Version", "")
				r.ContentLength = length
				return allocates(func() { require.Equal(t, want, kit.ServeNow(s, r).Status) })
			}
			honest := send(id, one, http.StatusOK)
			for name, cost := range map[string]int64{
				"no session": send("", batch, http.StatusBadRequest), "none of ours": send("nobody", batch, http.StatusNotFound),
				"a session without batches": send(other, batch, http.StatusBadRequest), "a session": send(id, batch, http.StatusBadRequest),
			} {
				t.Logf("%s: %.2f times a message of its size", name, float64(cost)/float64(honest))
				require.Less(t, float64(cost), 1.3*float64(honest), name)
			}
		}
	})
}

// The bytes of a body, refused or not, are free after the answer.
func TestBuffersOfLargeBodiesAreNotKept(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const bodies, size = 64 / min(kit.Fewer, 8), 4 << 20
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
		id := kit.OpenReady(t, s)
		for _, want := range []int{http.StatusOK, http.StatusNotFound} {
			text := padded(size)
			base := kit.HeapAlloc()
			gate := make(chan struct{})
			done := make(chan int, bodies)
			for n := range bodies { // all bodies are read at once
				r := kit.InSession(t, map[int]string{http.StatusOK: id, http.StatusNotFound: "nobody"}[want], "")
				r.ContentLength = -1
				end := kit.ReaderFunc(func([]byte) (int, error) { <-gate; return 0, io.EOF })
				own := strings.Replace(kit.Ping, `"mine"`, strconv.Itoa(100_000+n), 1) // two with one id must not be in flight at once
				r.Body = io.NopCloser(io.MultiReader(strings.NewReader(own), strings.NewReader(text[len(own):]), end))
				go func() { done <- kit.ServeNow(s, r).Status }()
			}
			synctest.Wait()
			close(gate)
			for range bodies {
				require.Equal(t, want, <-done)
			}
			runtime.GC() // only once: what pools hold survives that
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			held := int64(m.HeapAlloc) - int64(base)
			t.Logf("%d KiB", held>>10)
			require.Less(t, held, int64(bodies*size/20))
		}
	})
}

// Memory is allocated for the bytes that come, not by the Content-Length, with every limit.
func TestALengthOfAnySize(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for _, limit := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1 << 50, 0, -1} {
			s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxBodyBytes: limit})
			id := kit.OpenReady(t, s)
			for _, length := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - 2, 1 << 50, 4 << 20, 1 << 16, 1<<12 - 1, 1 << 12, 0} {
				for _, size := range []int{len(kit.Ping), 1<<12 - 1, 1 << 12, 1<<12 + 1, 100_000} {
					r := kit.InSession(t, id, padded(size))
					r.ContentLength = length
					var w *kit.Recorder
					cost := allocates(func() { w = kit.ServeNow(s, r) })
					require.Equal(t, http.StatusOK, w.Status, "limit %d, length %d, %d bytes", limit, length, size)
					require.Less(t, cost, int64(64<<10+12*size), "limit %d, length %d, %d bytes", limit, length, size)
				}
			}
		}
	})
}

// The messages of one body are delivered one by one, while the session lives and the client waits.
func TestLoopsOverABatchEnd(t *testing.T) {
	for name, test := range map[string]struct {
		batch         string
		end           func(s *rejoin.Server, id string, hangUp func())
		told, started int
	}{
		"the session ends":               {aNote + strings.Repeat(","+aNote, 99), endSession, 3, 0},
		"the client hangs up":            {aNote + strings.Repeat(","+aNote, 99), hangUp, 3, 0},
		"the session ends, with calls":   {aNote + strings.Repeat(","+aNote, 99) + "," + kit.CallBody("7", "{}"), endSession, 3, 0},
		"the client hangs up, and waits": {aNote + strings.Repeat(","+aNote, 99) + "," + kit.CallBody("7", "{}"), hangUp, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				var id string
				var s *rejoin.Server
				told, started := 0, 0
				ctx, cancel := context.WithCancel(context.Background())
				s = kit.NewServer(t, &kit.Fake{
					OnNotification: func(*rejoin.Notification) {
						if told++; told == test.told {
							test.end(s, id, cancel)
						}
					},
					OnRequest: func(c *rejoin.Call) { started++; kit.Accept(c) },
				}, rejoin.Config{})
				id = batchesOf(t, s)
				started = 0
				kit.ServeNow(s, kit.InSession(t, id, "["+test.batch+"]").WithContext(ctx))
				require.Equal(t, test.told, told)
				require.Equal(t, test.started, started, "a client that has gone away cancels nothing")
				cancel()
			})
		})
	}
}

func hangUp(_ *rejoin.Server, _ string, cut func()) { cut() }

func endSession(s *rejoin.Server, _ string, _ func()) {
	for info := range s.Sessions() {
		_ = s.EndSession(info.Ref)
	}
}

// Ids of requests that have ended are kept for a while, since their clients may poll, but only up to a number of bytes.
func TestLongIDsOfEndedBatches(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const batches, members = 1300 / min(kit.Fewer, 4), 64
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.ModeSSE, Retain: time.Minute}})
		id := batchesOf(t, s)
		send := func(pad string) int64 {
			base := kit.HeapAlloc()
			for i := range batches {
				var calls []string
				for k := range members {
					calls = append(calls, kit.CallBody(`"`+pad+strconv.Itoa(1000_000+i*members+k)+`"`, "{}"))
				}
				require.Equal(t, http.StatusOK, kit.ServeNow(s, kit.InSession(t, id, "["+strings.Join(calls, ",")+"]")).Status)
			}
			kit.Elapse(10 * time.Minute)
			require.EqualValues(t, 1, s.Stats().Streams)
			return int64(kit.HeapAlloc()) - int64(base)
		}
		held := send(strings.Repeat("x", 1010))
		t.Logf("%d KiB of %d", held>>10, batches*members)
		require.Less(t, held, int64(2<<20), "in a session in which nothing runs")
	})
}

// stubbornApp is an app of the root package whose tool ignores its context, and runs until release.
func stubbornApp() (app rejoin.App, release func()) {
	gate := make(chan struct{})
	return rejoin.NewApp(kit.Info, func(context.Context, *rejoin.Request) (any, error) { <-gate; return rejoin.Text("late"), nil }), func() { close(gate) }
}

// A client cannot have more running handlers than a few times MaxConcurrent, in whatever way it ends its calls.
func TestEndingCallsMakesNoRoomForAnyNumber(t *testing.T) {
	const n, most = 5000 / min(kit.Fewer, 5), 16
	ways := map[string]func(t *testing.T, s *rejoin.Server, id string) (string, int){
		"by cancelling": func(t *testing.T, s *rejoin.Server, id string) (string, int) {
			t.Helper()
			kit.ServeNow(s, kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine"}}`))
			return id, 4 * most
		},
		"by MaxRuntime": func(t *testing.T, _ *rejoin.Server, id string) (string, int) {
			t.Helper()
			kit.Elapse(time.Hour)
			return id, 4 * most
		},
		"by DELETE": func(t *testing.T, s *rejoin.Server, id string) (string, int) {
			t.Helper()
			kit.DeleteNow(t, s, id)
			id, _ = kit.OpenNow(t, s, kit.Initialize)
			return id, 100
		},
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, release := stubbornApp()
				s := kit.NewServer(t, app, rejoin.Config{MaxConcurrent: most, MaxSessions: 100, SessionIdleTTL: -1, Policy: rejoin.Policy{MaxRuntime: time.Minute}})
				resting := len(kit.Goroutines())
				id, limit := kit.OpenReady(t, s), 0
				refused := 0
				for range n {
					w := kit.Serve(s, kit.InSession(t, id, kit.CallBody(`"mine"`, "{}")))
					if w.Summary() != "open" && !strings.HasPrefix(w.Summary(), "200 sse") {
						require.Regexp(t, `^429 error\(-32000,"mine"\) ended$`, w.Summary())
						refused++
						if refused > 20 {
							break
						}
						continue
					}
					if id, limit = end(t, s, id); id == "" { // there is no room for another session
						break
					}
				}
				running := len(kit.Goroutines()) - resting
				t.Logf("%d at work", running)
				require.LessOrEqual(t, running, limit+10)
				require.GreaterOrEqual(t, running, limit/2)
				release()
				synctest.Wait()
				if id == "" {
					id, _ = kit.OpenNow(t, s, kit.Initialize)
				}
				w := kit.ServeNow(s, kit.InSession(t, id, kit.CallBody(`"other"`, "{}")))
				require.Equal(t, http.StatusOK, w.Status, "those that have returned count no more")
				kit.RequireRested(t, resting)
			})
		})
	}
}

// An app that drops calls which have ended, and never answers them, does not use up the number of handlers.
func TestCallsThatAreLetGoOfDoNotCountForEver(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const most = 2
		app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
			if c.Method() == "initialize" {
				kit.Accept(c)
			}
		}}
		s := kit.NewServer(t, app, rejoin.Config{MaxConcurrent: most, Logger: kit.QuietLogger()})
		id := kit.OpenReady(t, s)
		collected := 0
		for done := 0; done < 20*most; {
			w := kit.Serve(s, kit.InSession(t, id, kit.CallBody(`"mine"`, "{}"), "Accept", "application/json"))
			if w.Summary() != "open" {
				require.Equal(t, `429 error(-32000,"mine") ended`, w.Summary())
				collected++
				require.Less(t, collected, 10_000, "after %d calls", done)
				runtime.GC()
				continue
			}
			kit.ServeNow(s, kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine"}}`))
			done++
		}
		require.Positive(t, collected)
	})
}

// Answers, cancellations and ends of sessions happen at the same time, many at once. The count of handlers stays right: afterwards exactly as
// many calls fit as before.
func TestTheCountOfHandlersStaysTrue(t *testing.T) {
	const most = 8
	var gate atomic.Pointer[chan struct{}]
	app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
		switch g := gate.Load(); {
		case c.Method() == "initialize" || g == nil && len(c.ID())%2 == 0:
			kit.Accept(c)
		case g == nil:
			go kit.Accept(c)
		default:
			go func() { <-*g; kit.Accept(c) }()
		}
	}}
	s := kit.NewServer(t, app, rejoin.Config{MaxConcurrent: most, MaxSessions: 3, Logger: kit.QuietLogger(), Policy: rejoin.Policy{StreamAfter: -1}})
	cancel := func(id, name string) {
		kit.ServeNow(s, kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+name+`}}`))
	}
	id, _ := kit.OpenNow(t, s, kit.Initialize)
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			for i := range 2000 / min(kit.Fewer, 4) {
				session, name := id, strconv.Itoa(worker*1_000_000+i*(1+i%7))
				if worker == 0 { // its sessions end while calls run
					session, _ = kit.OpenNow(t, s, kit.Initialize)
				}
				var both sync.WaitGroup
				both.Go(func() {
					status := kit.ServeNow(s, kit.InSession(t, session, kit.CallBody(name, "{}"))).Status
					assert.Contains(t, []int{http.StatusOK, http.StatusAccepted, http.StatusNotFound}, status)
				})
				if worker == 0 {
					kit.DeleteNow(t, s, session)
				} else {
					cancel(session, name)
				}
				both.Wait()
			}
		})
	}
	all.Wait()
	held := make(chan struct{})
	gate.Store(&held)
	for i := range 4 * most {
		name := strconv.Itoa(i)
		answered := make(chan int)
		go func() { answered <- kit.ServeNow(s, kit.InSession(t, id, kit.CallBody(name, "{}"))).Status }()
		for waiting := true; waiting; {
			cancel(id, name)
			select {
			case status := <-answered:
				require.Equal(t, http.StatusOK, status, "%d of %d", i, 4*most) // an empty stream
				waiting = false
			default:
				runtime.Gosched()
			}
		}
	}
	require.Equal(t, http.StatusTooManyRequests, kit.ServeNow(s, kit.InSession(t, id, kit.CallBody("1", "{}"))).Status)
	close(held)
}
