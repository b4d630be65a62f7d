package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// When the store of a stream works again, events have ids again from the next one on. Events without an id have one if they are read again, so each
// event comes once after each cursor.
func TestAStoreThatRecovers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newLossyWorld(t, rejoin.Policy{})
		call := w.CallTool("x", nil)
		tool := w.next()
		told := 0
		tell := func() {
			require.NoError(t, tool.Progress(float64(told), 0, ""))
			told++
			synctest.Wait()
		}
		tell()
		before := call.IDs()[1]
		w.store.Fail(kit.ErrStore)
		tell()
		tell()
		require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrNotResumable, "it would have no id for what it was given")
		w.store.Fail(nil)
		kit.Elapse(time.Minute)
		tell()
		require.NoError(t, tool.CloseStream(0))
		synctest.Wait()
		require.Equal(t, "200 sse primer@0 1:progress -:progress -:progress 4:progress retry closed", kit.Last(call))
		call.Poll()
		tell()
		require.Equal(t, "200 sse primer@4 5:progress open", kit.Last(call))
		call.PollFrom(before)
		require.Equal(t, "200 sse primer@1 2:progress 3:progress 4:progress 5:progress open", kit.Last(call), "with the numbers that they always had")
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, kit.UpTo(5), kit.Progress(t, call.Messages()))
		require.EqualValues(t, 2, w.Server().Stats().StoreFailed, "the failed append, and one try that followed")
	})
}

// The same for the standalone stream, whose session may live for long.
func TestAStandaloneStreamRecovers(t *testing.T) {
	for _, away := range []bool{false, true} {
		kit.Bubble(t, func(t *testing.T) {
			w := newLossyWorld(t, rejoin.Policy{})
			w.CallTool("x", nil)
			s := w.next().Session()
			tell := func() { require.NoError(t, s.Notify(context.Background(), "notifications/x", nil)); synctest.Wait() }
			listen := w.Listen()
			tell()
			if away {
				listen.Cut()
			}
			w.store.Fail(kit.ErrStore)
			tell()
			w.store.Fail(nil)
			tell()
			if away {
				listen.Poll()
				tell()
				require.Equal(t, "200 sse primer@1 2:x 3:x 4:x open", kit.Last(listen))
				return
			}
			require.Equal(t, "200 sse primer@0 1:x -:x 3:x open", kit.Last(listen))
			listen.Cut()
			listen.Poll()
			tell()
			require.Equal(t, "200 sse primer@3 4:x open", kit.Last(listen))
		})
	}
}

// A store that stays away is tried less and less often. When it works again, it gets every event that it has missed, in sequence.
func TestAStoreIsTriedLessAndLess(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		away, tries := true, 0
		store := storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(op string, n int) error {
			if op != "append" || !away {
				return nil
			}
			tries++
			return kit.ErrStore
		})
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store, KeepAlive: -1, Logger: kit.QuietLogger()}})
		call := c.CallTool("x", nil)
		tool := next()
		for i := range 600 { // a minute
			require.NoError(t, tool.Progress(float64(i), 0, ""))
			kit.Elapse(100 * time.Millisecond)
		}
		require.Greater(t, tries, 5)
		require.Less(t, tries, 20)
		away = false
		kit.Elapse(time.Minute)
		require.NoError(t, tool.Progress(600, 0, ""))
		synctest.Wait()
		first := call.IDs()[0]
		require.Len(t, call.IDs(), 2, "a primer and the last event")
		call.PollFrom(first)
		require.Equal(t, kit.UpTo(601), kit.Progress(t, call.Messages()))
		require.Len(t, call.IDs(), 2+1+601, "all have ids now")
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		bytes, _ := eventstore.AccountantOf(store).Usage()
		require.Positive(t, bytes)
	})
}

// If a store takes long to fail, its streams wait for it only a part of the time.
func TestAStoreThatFailsSlowly(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		store := storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(op string, n int) error {
			if op == "append" {
				kit.Elapse(time.Second)
				return kit.ErrStore
			}
			return nil
		})
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store, KeepAlive: -1, Logger: kit.QuietLogger()}})
		call := c.CallTool("x", nil)
		tool := next()
		waited := time.Duration(0)
		for i := range 1000 {
			began := time.Now()
			require.NoError(t, tool.Progress(float64(i), 0, ""))
			waited += time.Since(began)
			kit.Elapse(100 * time.Millisecond)
		}
		require.Less(t, waited, 10*time.Second, "of a hundred")
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// Outages of a store happen at the same time as closes, cuts and resumes. Every event comes once after each cursor, no id has two meanings (the client
// of package rejointest compares), and the response comes.
func TestOutagesCross(t *testing.T) {
	for seed := range 30 {
		kit.Bubble(t, func(t *testing.T) {
			w := newLossyWorld(t, rejoin.Policy{CloseAfter: 37 * time.Millisecond, Retry: 3 * time.Millisecond})
			listen := w.Listen()
			var calls []*rejointest.Call
			var tools []*kit.ManualTool
			for range 6 {
				calls = append(calls, w.CallTool("x", nil))
				tools = append(tools, w.next())
			}
			for k := range 6 { // outages of 1 to 13 ms
				at := time.Duration((seed*7+k*41)%250) * time.Millisecond
				time.AfterFunc(at, func() { w.store.Fail(kit.ErrStore) })
				time.AfterFunc(at+time.Duration(1+(seed+k)%13)*time.Millisecond, func() { w.store.Fail(nil) })
			}
			const events = 40
			for i, tool := range tools {
				go func() {
					for k := range events {
						_ = tool.Progress(float64(k), 0, "")
						if k%9 == i {
							_ = tool.CloseStream(time.Millisecond)
							_ = tool.Session().Notify(context.Background(), "notifications/x", nil)
						}
						kit.Elapse(time.Duration(3+i) * time.Millisecond)
					}
					tool.Answer <- "done"
				}()
			}
			for open := len(calls); open > 0; {
				kit.Elapse(7 * time.Millisecond)
				synctest.Wait()
				open = 0
				for i, call := range calls {
					last := kit.Last(call)
					switch {
					case failedRead(last), answered(last):
						continue
					case len(last) > 6 && last[len(last)-6:] == "closed":
						call.Poll()
					case (seed+i)%3 == 0:
						call.Cut()
						call.Poll()
					}
					open++
				}
			}
			for _, call := range calls {
				if last := kit.Last(call); answered(last) {
					require.Equal(t, `"done"`, string(call.Result()))
					require.Equal(t, kit.UpTo(events), kit.Progress(t, call.Messages()), fmt.Sprint("seed ", seed))
				}
			}
			kit.Elapse(time.Minute)
			require.NoError(t, tools[0].Session().Notify(context.Background(), "notifications/x", nil))
			listen.Cut()
			listen.Poll()
			require.NotEmpty(t, listen.IDs())
		})
	}
}

func answered(summary string) bool { return strings.Contains(summary, "result") }

// failedRead reports whether a client was told that the store could not return its events, in a resume during an outage.
func failedRead(summary string) bool { return strings.Contains(summary, "store") }
