package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Messages of the standalone stream wait for the engine, or are in memory because that has failed. Nothing runs, and a drain waits for them all the same,
// also if it knows of no other process yet.
func TestADrainWaitsForMessagesThatTheEngineHasNot(t *testing.T) {
	for _, outage := range []time.Duration{time.Minute, -1} {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprint(outage, alone), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					o := options{cluster: func(c *rejoin.Cluster) { c.Outage = outage }}
					of := watch(&o)
					w := newWorld(t, o)
					if !alone {
						elapse(lease) // it has seen the other one
					}
					listen := w.Listen()
					of(0).send(t, "a")
					require.Equal(t, "200 sse primer@0 1:a open", kit.Last(listen))
					listen.Cut()
					w.processes[0].link.SetLink(clustertest.Refused)
					of(0).send(t, "b", "c")
					done := w.drain(t, time.Hour)
					elapse(5 * time.Second)
					require.Empty(t, done)
					w.processes[0].link.SetLink(clustertest.Up)
					elapse(lease)
					require.NoError(t, <-done)
					w.use(1)
					listen.Poll()
					elapse(time.Second)
					require.Equal(t, "200 sse primer@1 2:b 3:c open", kit.Last(listen))
				})
			})
		}
	}
}
