package cluster_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Events that only this process has, because the engine was away, keep a session here until the engine has them.
func TestADrainWaitsForWhatTheEngineMissed(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{cluster: func(c *rejoin.Cluster) { c.Outage = -1 }})
		call, tool := w.run(t, 1)
		w.processes[0].link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "append" || c.Op == "restore" {
				f.Before = clustertest.ErrUnreachable
			}
			return f
		})
		tool.Returns("done")
		done := w.drain(t, time.Hour)
		elapse(lease)
		require.Empty(t, done)
		w.processes[0].link.SetScript(nil)
		require.NoError(t, <-done)
		w.use(1)
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// A question that belongs to no call keeps a session here until it is answered.
func TestADrainWaitsForAnAnswer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		answer := make(chan struct{})
		w := newWorld(t, options{onRequest: func(string, json.RawMessage) (any, error) {
			<-answer
			return "yes", nil
		}})
		call, tool := w.run(t, 1)
		listen := w.Listen()
		var got any
		tool.Session().AskFunc(context.Background(), "roots/list", nil, func(raw json.RawMessage, err error) { got = []any{string(raw), err} })
		tool.Returns("done")
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
		done := w.drain(t, time.Hour)
		listen.Poll()
		elapse(time.Minute)
		require.Empty(t, done)
		w.use(1)
		close(answer)
		synctest.Wait()
		require.Equal(t, []any{`"yes"`, error(nil)}, got)
		require.NoError(t, <-done)
	})
}
