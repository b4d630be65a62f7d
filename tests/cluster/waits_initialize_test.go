package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// lastPut notes the session of the newest Put.
type lastPut struct {
	mu  sync.Mutex
	key string
}

func (l *lastPut) script(f clustertest.Fault) func(clustertest.Call) clustertest.Fault {
	return func(c clustertest.Call) clustertest.Fault {
		if c.Op != "put" {
			return clustertest.Fault{}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.key = c.Session
		return f
	}
}

// find returns the error of looking the session up.
func (l *lastPut) find(t *testing.T, w *world) error {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NotEmpty(t, l.key)
	_, err := w.engine.Find(context.Background(), l.key, cluster.Process{})
	return err
}

// The record of a session that cannot be written: 503, and neither a session nor a record is left.
func TestARecordThatCannotBeWritten(t *testing.T) {
	for name, f := range map[string]clustertest.Fault{
		"fails":              {Before: errors.New("no")},
		"answer lost":        {After: errors.New("lost")},
		"too slow":           {Delay: time.Minute},
		"too slow, and late": {Delay: 1500 * time.Millisecond, Late: true},
		"answer too slow":    {DelayAnswer: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				var put lastPut
				w := newWorld(t, options{})
				first := w.processes[0]
				resting := len(kit.Goroutines())
				first.link.SetScript(put.script(f))
				began := time.Now()
				w0 := kit.Serve(first.Server, kit.Request(t, "POST", kit.Initialize))
				elapse(2 * time.Second)
				require.Contains(t, w0.Summary(), "503 error")
				require.Empty(t, w0.Head.Get("Mcp-Session-Id"))
				require.NotEmpty(t, w0.Head.Get("Retry-After"))
				require.LessOrEqual(t, time.Since(began), 3*time.Second)
				require.Len(t, kit.Sessions(first.Server), 1, "only the other one")
				elapse(2 * time.Minute)
				require.Error(t, put.find(t, w), "no record is left")
				kit.RequireRested(t, resting)
				first.link.SetScript(nil)
				id, refused := kit.Open(t, first.Server)
				require.NotEmpty(t, id, refused)
			})
		})
	}
}

// initialize waits for the record, and only then is it answered.
func TestInitializeWaitsForTheRecord(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var put lastPut
		w := newWorld(t, options{})
		first := w.processes[0]
		first.link.SetScript(put.script(clustertest.Fault{Delay: 300 * time.Millisecond, DelayAnswer: 300 * time.Millisecond}))
		opening := kit.Serve(first.Server, kit.Request(t, "POST", kit.Initialize))
		require.ErrorIs(t, put.find(t, w), cluster.ErrUnknown)
		elapse(400 * time.Millisecond)
		require.NoError(t, put.find(t, w))
		require.Equal(t, "open", opening.Summary())
		elapse(300 * time.Millisecond)
		require.Equal(t, "200 result ended", opening.Summary())
	})
}

// The client of an initialize goes away while the record is being written: the session ends, and its record too.
func TestTheClientOfAnInitializeGoesAway(t *testing.T) {
	for _, when := range []time.Duration{0, 100 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(fmt.Sprint(when), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				var put lastPut
				w := newWorld(t, options{})
				first := w.processes[0]
				first.link.SetScript(put.script(clustertest.Fault{Delay: 300 * time.Millisecond, DelayAnswer: 300 * time.Millisecond}))
				resting := len(kit.Goroutines())
				ctx, cancel := context.WithCancel(t.Context())
				kit.Serve(first.Server, kit.Request(t, "POST", kit.Initialize).WithContext(ctx))
				elapse(when)
				cancel()
				elapse(2 * time.Second)
				require.Len(t, kit.Sessions(first.Server), 1, "only the other one")
				require.ErrorIs(t, put.find(t, w), cluster.ErrEnded)
				kit.RequireRested(t, resting)
			})
		})
	}
}

// What an app saves in initialize is in the record from the beginning.
func TestTheFirstStateIsInTheRecord(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{app: func(int) (rejoin.App, func() *kit.ManualTool) {
			app, next := kit.ManualTools()
			return savesAtOnce{app}, next
		}})
		first := w.processes[0]
		saves, puts := first.link.Count("save"), first.link.Count("put")
		_, refused := kit.Open(t, first.Server)
		require.Empty(t, refused)
		require.Equal(t, puts+1, first.link.Count("put"))
		require.Equal(t, saves, first.link.Count("save"), "once is enough")
		startedCall(t, w)
		require.Equal(t, "at once", string(h.record().State))
		elapse(time.Second)
		require.Equal(t, saves, first.link.Count("save"))
	})
}
