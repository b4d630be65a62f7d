package cluster_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// slowAdoptions makes adoptions of a process take longer.
func slowAdoptions(p *process) {
	p.link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
		if c.Op == "adopt" {
			f.Delay = 500 * time.Millisecond
		}
		return f
	})
}

// A session that was released may be asked for at two processes at once: the slower one forwards to the one that has adopted it.
func TestAReleasedSessionIsAskedForTwiceAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		w.add(options{})
		require.NoError(t, <-w.drain(t, time.Hour))
		slowAdoptions(w.processes[1])
		slow := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
		require.Equal(t, served, w.ping(t, 2, w.session()))
		elapse(time.Second)
		require.Equal(t, served, slow.Summary())
		require.EqualValues(t, 1, w.processes[1].Stats().Forwarded)
	})
}

// A drain may begin while its process adopts a session: that is released at once, and the request goes to another process.
func TestADrainBeginsDuringAnAdoption(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		w.add(options{})
		require.NoError(t, <-w.drain(t, time.Hour))
		slowAdoptions(w.processes[1])
		ping := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
		done := kit.Drain(t, w.processes[1].Server, time.Hour)
		elapse(10 * time.Second) // the first process is tried, too, which drains
		require.Equal(t, served, ping.Summary())
		require.NoError(t, <-done)
		require.Len(t, kit.Sessions(w.processes[2].Server), 1)
	})
}

// A drain may begin while the app opens a new session: the client gets a session of another process.
func TestADrainBeginsDuringAnInitialize(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var o options
		apps := watch(&o)
		w := newWorld(t, o)
		apps(0).opens(func(*http.Request, *rejoin.Session, []byte) error {
			kit.Elapse(time.Second)
			return nil
		})
		res := kit.Serve(w.processes[0].Server, kit.Request(t, http.MethodPost, kit.Initialize))
		done := w.drain(t, time.Hour)
		elapse(2 * time.Second)
		require.Equal(t, served, res.Summary())
		require.NoError(t, <-done)
		synctest.Wait()
		require.Len(t, kit.Sessions(w.processes[1].Server), 1)
		require.Equal(t, served, w.ping(t, 0, res.Head.Get("Mcp-Session-Id")))
	})
}
