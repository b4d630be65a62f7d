package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A session whose app cannot say its state any more is released with the one that was saved last.
func TestADrainOfAStateThatCannotBeHad(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call := w.CallTool("x", nil)
		tool := w.processes[0].next()
		require.NoError(t, tool.Session().SaveState([]byte("old")))
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.NoError(t, tool.Session().SaveStateFunc(func() []byte { panic("no state") }))
		finished := w.drain(t, time.Hour)
		elapse(time.Minute)
		require.NotEmpty(t, finished)
		require.NoError(t, <-finished)
		w.use(1)
		w.CallTool("x", nil)
		require.Equal(t, "old", string(w.processes[1].next().Session().SavedState()))
	})
}
