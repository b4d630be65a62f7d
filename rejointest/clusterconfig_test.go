package rejointest_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Each process can have a configuration of its own: its way to an engine, and what it reaches others with.
func TestEachProcessCanBeConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := cluster.NewMemory(eventstore.MemoryConfig{})
		var links []*clustertest.Faulty
		var hops atomic.Int32
		c := rejointest.NewCluster(t, new(fleet).app, rejointest.Config{
			Processes: 2,
			Server:    rejoin.Config{Cluster: &rejoin.Cluster{Name: "mine", Lease: 3 * time.Second}},
			Each: func(n int, cfg *rejoin.Config) {
				require.Equal(t, len(links), n)
				require.Equal(t, "mine", cfg.Cluster.Name)
				require.Equal(t, 3*time.Second, cfg.Cluster.Lease)
				link := clustertest.NewFaulty(engine, engine, nil)
				links = append(links, link)
				cfg.Store = link
				inner := cfg.Cluster.Transport
				cfg.Cluster.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					hops.Add(1)
					return inner.RoundTrip(r)
				})
			},
		})
		client := c.NewClient()
		call := client.CallTool("x", nil)
		call.WaitMessages(1)
		require.NotZero(t, hops.Load(), "notifications/initialized went to the second process")
		require.NotZero(t, links[0].Count("put"))

		// The owner cannot reach the engine any more, so the other process adopts the session.
		links[0].SetLink(clustertest.Silent)
		elapse(10 * time.Second)
		c.Spray(c.Processes()[1])
		client.Start("ping", nil).Result()
		require.EqualValues(t, 1, c.Processes()[1].Stats().Adopted)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A directory apart from the store is the user's, too.
func TestADirectoryApartFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := cluster.NewMemory(eventstore.MemoryConfig{})
		c := rejointest.NewCluster(t, new(fleet).app, rejointest.Config{Server: rejoin.Config{
			Store: struct{ eventstore.Store }{engine}, Cluster: &rejoin.Cluster{Directory: engine},
		}})
		client := c.NewClient()
		call := client.CallTool("x", nil)
		call.WaitMessages(1)
		client.Owner().Kill()
		require.Equal(t, rejoin.ReasonOwnerLost, call.Err().Reason())
	})
}

// A killed process logs nothing more, and records nothing.
func TestAKilledProcessIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log bytes.Buffer
		app := func() rejoin.App {
			return tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
				h.Session().Logger().Info("from the owner")
				_ = h.Progress(1, 0, "")
				<-ctx.Done()
				for range 10 {
					_ = h.Progress(2, 0, "")
					_ = h.Session().SaveState([]byte("x"))
					elapse(10 * time.Second)
				}
				h.Session().Logger().WithGroup("g").Error("from the grave")
				return 7, nil
			})
		}
		c := rejointest.NewCluster(t, app, rejointest.Config{Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(p)
		}), nil))}})
		client := c.NewClient()
		call := client.CallTool("x", nil)
		call.WaitMessages(1)
		require.Contains(t, log.String(), "from the owner")
		require.Contains(t, log.String(), "process=0")
		client.Owner().Kill()
		log.Reset()
		require.Equal(t, rejoin.ReasonOwnerLost, call.Err().Reason())
		elapse(5 * time.Minute)
		require.Equal(t, []int{1}, progress(t, call.Messages()))
		mu.Lock()
		defer mu.Unlock()
		require.NotContains(t, log.String(), "from the grave")
		require.NotContains(t, log.String(), "process=0")
	})
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// What a user's test must report, and with which words.
func TestFailuresOfAClusterTest(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  rejointest.Config
		do   func(*rejointest.Cluster, *rejointest.Client)
		want string // a regular expression; "": no failure
	}{
		"a configuration that is refused": {
			cfg: rejointest.Config{Server: rejoin.Config{Cluster: &rejoin.Cluster{Name: "a b"}}}, want: "Cluster.Name",
		},
		"a store without a directory": {
			cfg:  rejointest.Config{Server: rejoin.Config{Store: eventstore.NewMemory(eventstore.MemoryConfig{})}},
			want: "Config.Store is not a cluster.Directory",
		},
		"Each takes the cluster away": {
			cfg: rejointest.Config{Each: func(_ int, cfg *rejoin.Config) { cfg.Cluster = nil }}, want: "Each must leave Cluster and its Self",
		},
		"Each changes Self": {
			cfg: rejointest.Config{Each: func(_ int, cfg *rejoin.Config) { cfg.Cluster.Self = "http://x" }}, want: "Each must leave Cluster and its Self",
		},
		"Restart of a process that runs": {
			do:   func(c *rejointest.Cluster, _ *rejointest.Client) { c.Restart(c.Processes()[1]) },
			want: `Restart: process 1 \(http://198.51.100.2:8080\) runs`,
		},
		"Shutdown twice": {
			do: func(_ *rejointest.Cluster, client *rejointest.Client) {
				owner := client.Owner()
				owner.Shutdown(time.Minute)
				owner.Shutdown(time.Minute)
			}, want: `Shutdown: process 0 \(.*\) has ended, or is ending`,
		},
		"Shutdown of a killed process": {
			do: func(c *rejointest.Cluster, _ *rejointest.Client) {
				c.Processes()[2].Kill()
				c.Processes()[2].Shutdown(time.Minute)
			}, want: `Shutdown: process 2 \(.*\) has ended, or is ending`,
		},
		"Wait without Shutdown": {
			do: func(c *rejointest.Cluster, _ *rejointest.Client) { _ = c.Processes()[1].Wait() }, want: `Wait: process 1 \(.*\) is not shutting down`,
		},
		"Wait for longer than Patience": {
			cfg: rejointest.Config{Patience: time.Second},
			do: func(_ *rejointest.Cluster, client *rejointest.Client) {
				client.CallTool("x", nil)
				owner := client.Owner()
				owner.Shutdown(time.Minute)
				_ = owner.Wait()
			}, want: `waited 1s for the end of process 0`,
		},
		"Owner of a session that is nowhere": {
			do: func(_ *rejointest.Cluster, client *rejointest.Client) {
				client.Owner().Kill()
				client.Server()
			}, want: "no process owns the session at this moment",
		},
		"a call while no process runs": {
			do: func(c *rejointest.Cluster, client *rejointest.Client) {
				for _, p := range c.Processes() {
					p.Kill()
				}
				client.CallTool("x", nil)
			}, want: "tools/call .*: POST tools/call: dial tcp 192.0.2.1:80: connection refused",
		},
		"Result of a call whose owner was killed": {
			do: func(_ *rejointest.Cluster, client *rejointest.Client) {
				call := client.CallTool("x", nil)
				client.Owner().Kill()
				call.Result()
			}, want: `JSON-RPC error -32000: .*"owner_lost"`,
		},
		"nothing": {do: func(_ *rejointest.Cluster, client *rejointest.Client) { client.CallTool("x", nil).Result() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := clusterFailures(t, test.cfg, test.do)
				if test.want == "" {
					require.Empty(t, got)
					return
				}
				require.Regexp(t, "(?s)"+test.want, got)
			})
		})
	}
}

// clusterFailures are what a test that does f reports.
func clusterFailures(t *testing.T, cfg rejointest.Config, f func(*rejointest.Cluster, *rejointest.Client)) string {
	t.Helper()
	s := &spy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := rejointest.NewCluster(s, new(fleet).app, cfg)
		f(c, c.NewClient())
	}()
	<-done
	return strings.Join(s.failures, "\n")
}

func TestNewClusterOutsideABubble(t *testing.T) {
	require.Contains(t, clusterFailures(t, rejointest.Config{}, nil), "NewCluster needs the virtual time of testing/synctest")
}

func TestOptionsOfAClusterAreNotForNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []rejointest.Config{{Processes: 2}, {Each: func(int, *rejoin.Config) {}}} {
			require.Contains(t, failures(t, tool(nil), cfg, nil), "for NewCluster")
		}
	})
}

// Everything ends with the test, whatever its processes are doing: else the bubble panics.
func TestEverythingOfAClusterEndsWithTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		c := rejointest.NewCluster(t, f.app, rejointest.Config{Processes: 5})
		var clients []*rejointest.Client
		for _, p := range c.Processes() {
			c.Spray(p)
			clients = append(clients, c.NewClient())
		}
		c.Spray()
		for _, client := range clients {
			client.Listen()
			client.CallTool("x", nil)
			client.CallTool("x", nil).Cut()
		}
		elapse(time.Second)
		c.Processes()[0].Shutdown(time.Hour)
		c.Processes()[1].Kill()
		c.Processes()[2].Kill()
		c.Restart(c.Processes()[2])
		clients[1].CallTool("x", nil)
	})
}

// A client of New has one process, which ends in the same ways.
func TestTheOnlyProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		c := rejointest.New(t, f.app(), rejointest.Config{})
		call := c.CallTool("x", nil)
		require.Same(t, c.Server(), c.Owner().Server)
		c.Owner().Shutdown(2 * takes)
		require.JSONEq(t, "0", string(call.Result()))
		require.NoError(t, c.Owner().Wait())
	})
}
