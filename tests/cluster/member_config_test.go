package cluster_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// clusterErrors are what NewServer says of a configuration, "" if it accepts it.
func clusterErrors(t *testing.T, c rejoin.Cluster, store eventstore.Store) string {
	t.Helper()
	app, _ := kit.ManualTools()
	s, err := rejoin.NewServer(app, rejoin.Config{Cluster: &c, Store: store, Logger: kit.QuietLogger()})
	if err != nil {
		return err.Error()
	}
	s.Close()
	return ""
}

func TestTheConfigurationOfACluster(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		engine := cluster.NewMemory(eventstore.MemoryConfig{})
		good := rejoin.Cluster{Name: "a.b-c_9", Self: "http://10.1.2.3:8080"}
		require.Empty(t, clusterErrors(t, good, engine))
		for _, self := range []string{"http://10.1.2.3:8080/", "https://pod-1.example", "http://[fd00::1]:8080", "http://pod"} {
			c := good
			c.Self = self
			require.Empty(t, clusterErrors(t, c, engine), self)
		}
		for _, self := range []string{
			"", "10.1.2.3:8080", "pod-1", "http://", "ftp://pod", "http://user:secret@pod", "http://pod/mcp", "http://pod?x=1", "http://pod#x", "://", "/mcp",
		} {
			c := good
			c.Self = self
			require.Contains(t, clusterErrors(t, c, engine), "Cluster.Self", self)
		}
		for _, name := range []string{"", "a b", "a/b", "ä", strings.Repeat("x", 65), "a\n"} {
			c := good
			c.Name = name
			require.Contains(t, clusterErrors(t, c, engine), "Cluster.Name", name)
		}
		c := good
		c.Name = strings.Repeat("x", 64)
		require.Empty(t, clusterErrors(t, c, engine))
		for _, lease := range []time.Duration{-1, time.Nanosecond, 999 * time.Millisecond} {
			c := good
			c.Lease = lease
			require.Contains(t, clusterErrors(t, c, engine), "Cluster.Lease", lease)
		}
		c = good
		c.Lease = time.Second
		require.Empty(t, clusterErrors(t, c, engine))
		require.Contains(t, clusterErrors(t, good, eventstore.NewMemory(eventstore.MemoryConfig{})), "Cluster.Directory")
		require.Contains(t, clusterErrors(t, good, nil), "Cluster.Directory")
		c = good
		c.Directory = engine
		require.Empty(t, clusterErrors(t, c, engine))
		all := clusterErrors(t, rejoin.Cluster{Lease: 1}, nil)
		for _, what := range []string{"Cluster.Name", "Cluster.Self", "Cluster.Directory", "Cluster.Lease"} {
			require.Contains(t, all, what, "all mistakes together")
		}
	})
}

// Two servers of one process with one Self would supersede each other for ever.
func TestTheSameSelfTwiceInOneProcess(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		engine := cluster.NewMemory(eventstore.MemoryConfig{})
		c := rejoin.Cluster{Name: "a", Self: "http://pod:80", Transport: kit.NoNetwork}
		app, _ := kit.ManualTools()
		cfg := rejoin.Config{Store: engine, Cluster: &c, Logger: kit.QuietLogger()}
		s, err := rejoin.NewServer(app, cfg)
		require.NoError(t, err)
		_, err = rejoin.NewServer(app, cfg)
		require.ErrorContains(t, err, `the Name "a" and the Self "http://pod:80"`)
		elapse(time.Minute)
		_, refused := kit.Open(t, s)
		require.Empty(t, refused, "the first is not disturbed")

		other := cfg
		other.Cluster = &rejoin.Cluster{Name: "b", Self: c.Self, Transport: kit.NoNetwork}
		second := kit.NewServer(t, app, other)
		elapse(time.Second)
		_, refused = kit.Open(t, second)
		require.Empty(t, refused, "another cluster on the same engine")

		elsewhere := cfg
		elsewhere.Store = cluster.NewMemory(eventstore.MemoryConfig{})
		third := kit.NewServer(t, app, elsewhere)
		elapse(time.Second)
		_, refused = kit.Open(t, third)
		require.Empty(t, refused, "another engine")

		s.Close()
		again, err := rejoin.NewServer(app, cfg)
		require.NoError(t, err, "after Close")
		elapse(time.Second)
		_, refused = kit.Open(t, again)
		require.Empty(t, refused)
		s.Close() // once more
		_, err = rejoin.NewServer(app, cfg)
		require.Error(t, err, "the newer one has the name")
		again.Close()
	})
}

// The caller's Cluster is not changed, and may be used for others.
func TestTheConfigurationIsCopied(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		engine := cluster.NewMemory(eventstore.MemoryConfig{})
		c := rejoin.Cluster{Name: "a", Self: "http://pod:80", Transport: kit.NoNetwork}
		require.Empty(t, clusterErrors(t, c, engine))
		app, _ := kit.ManualTools()
		s := kit.NewServer(t, app, rejoin.Config{Store: engine, Cluster: &c, Logger: kit.QuietLogger()})
		require.Equal(t, rejoin.Cluster{Name: "a", Self: "http://pod:80", Transport: kit.NoNetwork}, c)
		c.Name = "changed"
		elapse(time.Minute)
		_, refused := kit.Open(t, s)
		require.Empty(t, refused)
	})
}

// Clusters with different names share nothing, also on one engine: not even an id that a client carries from one to the other.
func TestClustersShareNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		w := newWorld(t, o)
		o.cluster = func(c *rejoin.Cluster) { c.Name = "other" }
		other := w.add(o)
		elapse(3 * lease)
		require.Equal(t, gone, w.ping(t, 2, w.session()))
		w.kill(0)
		require.Equal(t, gone, w.ping(t, 2, w.session()))
		require.Equal(t, served, w.ping(t, 1, w.session()))
		require.Zero(t, other.Stats().Adopted)
	})
}

// Everything ends with Close, whatever the engine does: the bubble of a test panics if a goroutine is left, and so that none waits for a timer
// either, this compares.
func TestNothingRunsAfterClose(t *testing.T) {
	for _, link := range []clustertest.Link{clustertest.Up, clustertest.Refused, clustertest.Silent, clustertest.Deaf} {
		kit.Bubble(t, func(t *testing.T) {
			o := options{}
			of := watch(&o)
			w := newWorld(t, o)
			before := len(kit.Goroutines())
			p := w.add(o)
			_, tool := w.run(t, 1)
			tool.Returns("done")
			lost := []string{w.session(), w.open(t, 0)}
			w.kill(0)
			require.Equal(t, served, w.ping(t, 2, lost[0]))
			goOn := make(chan struct{})
			of(2).opens(func(r *http.Request, _ *rejoin.Session, _ []byte) error {
				<-goOn
				return errOpen
			})
			w.ask(t, 2, http.MethodPost, lost[1], kit.Ping)
			require.NoError(t, of(2).opened[0].s.SaveState([]byte("x")))
			p.link.SetLink(link)
			require.NoError(t, of(2).opened[0].s.Notify(t.Context(), "notifications/x", nil))
			elapse(time.Second)
			p.Close()
			close(goOn)
			elapse(time.Minute)
			w.net.Off("2")
			w.net.CloseIdle()
			synctest.Wait()
			running := kit.Goroutines()
			require.LessOrEqual(t, len(running), before, "%v\n%s", link, strings.Join(running, "\n\n"))
		})
	}
}
