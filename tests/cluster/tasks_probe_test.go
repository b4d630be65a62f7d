package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Another user cannot find out whether a task exists, also while the engine is away.
func TestATaskCannotBeProbedDuringAnOutage(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		elapse(3 * lease)
		id, _ := w.task(t, 0)
		probe := func(id string) string {
			r := taskRequest(t, "tasks/get", id)
			r.Header.Set("X-User", "mallory")
			return kit.Serve(w.processes[0].Server, r).Body.String()
		}
		other := id[:len(id)-1] + map[bool]string{true: "B", false: "A"}[id[len(id)-1] == 'A']
		require.Equal(t, probe(other), probe(id))
		w.processes[0].link.SetLink(clustertest.Refused)
		elapse(3 * lease)
		require.Equal(t, probe(other), probe(id))
	})
}
