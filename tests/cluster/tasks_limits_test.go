package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// The tasks of a principal outlive their process also where the next owner has as many of it as it may have.
func TestAdoptionBeyondMaxPerPrincipal(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := tasks()
		config := o.config
		o.config = func(c *rejoin.Config) {
			config(c)
			c.Tasks.MaxPerPrincipal = 2
		}
		w := newWorld(t, o)
		var ids []string
		for n := range 2 {
			for i := range 2 {
				id, tool := w.task(t, n)
				tool.Returns(done(i))
				ids = append(ids, id)
			}
		}
		require.NoError(t, <-kit.Drain(t, w.processes[0].Server, time.Hour))
		for i, id := range ids {
			require.Equal(t, fmt.Sprintf("completed map[n:%d]", i%2), w.state(t, 1, id), i)
		}
	})
}

// Adoption of tasks does not depend on how many sessions there are.
func TestTasksAreAdoptedWhereThereAreManySessions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := tasks()
		config := o.config
		o.config = func(c *rejoin.Config) {
			config(c)
			c.MaxSessions = 1
		}
		w := newWorld(t, o)
		id, tool := w.task(t, 0)
		tool.Returns(done(1))
		w.open(t, 1)
		require.NoError(t, <-kit.Drain(t, w.processes[0].Server, time.Hour))
		require.Equal(t, "completed map[n:1]", w.state(t, 1, id))
	})
}
