//go:build redis

package redisstore_test

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// connect returns a client with one connection, which notices by itself when it breaks.
func connect(t testing.TB, addresses ...string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addresses, PipelineMultiplex: -1, AlwaysPipelining: true, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func open(t testing.TB, client rueidis.Client, cfg redisstore.Config) *redisstore.Store {
	t.Helper()
	cfg.Client = client
	s, err := redisstore.New(cfg)
	require.NoError(t, err)
	return s
}

// flush empties all primary servers of an engine.
func flush(t testing.TB, client rueidis.Client) {
	t.Helper()
	for address, node := range client.Nodes() {
		err := node.Do(t.Context(), node.B().Flushall().Build()).Error()
		if e, ok := rueidis.IsRedisErr(err); !ok || !e.IsNil() && e.Error() != "READONLY You can't write against a read only replica." {
			require.NoError(t, err, address)
		}
	}
}

// exam takes both exams with an engine that forgets by FLUSHALL.
func exam(t *testing.T, addresses ...string) {
	t.Run("directory", func(t *testing.T) {
		client, other := connect(t, addresses...), connect(t, addresses...)
		clustertest.Run(t, clustertest.Features{}, func(t testing.TB) clustertest.Engine {
			flush(t, client)
			s := open(t, client, redisstore.Config{})
			return clustertest.Engine{
				Directory: s, Store: s,
				Forget: func() { flush(t, client) },
				Another: func(t testing.TB) (cluster.Directory, eventstore.Store) {
					s := open(t, other, redisstore.Config{})
					return s, s
				},
			}
		})
	})
	client := connect(t, addresses...)
	for name, c := range map[string]struct {
		features storetest.Features
		config   redisstore.Config
	}{
		"bounded":   {storetest.Features{Bounded: true}, redisstore.Config{SessionBytes: 1 << 20}},
		"unbounded": {storetest.Features{}, redisstore.Config{SessionBytes: -1, BacklogBytes: -1}},
	} {
		t.Run("store, "+name, func(t *testing.T) {
			t.Run("without records", func(t *testing.T) {
				storetest.Run(t, c.features, func(t testing.TB) eventstore.Store {
					flush(t, client)
					return open(t, client, c.config)
				})
			})
			t.Run("with records", func(t *testing.T) {
				storetest.Run(t, c.features, func(t testing.TB) eventstore.Store {
					flush(t, client)
					return &owned{Store: open(t, client, c.config)}
				})
			})
		})
	}
}

var owner = eventstore.Fence{Incarnation: "a1", Epoch: 1}

// owned is the store as the owner of all sessions uses it.
type owned struct {
	*redisstore.Store
	sessions sync.Map
}

func (o *owned) Log(k eventstore.Key) eventstore.Log {
	if _, known := o.sessions.LoadOrStore(k.Session, true); !known {
		_ = o.Put(context.Background(), &cluster.Record{Session: k.Session, Fence: owner}, time.Hour) // fails when the store is closed
	}
	k.Fence = owner
	return o.Store.Log(k)
}

// programs are the engines to test with: Redis, and Valkey where it is installed.
func programs() []string {
	found := []string{"redis-server"}
	if _, err := exec.LookPath("valkey-server"); err == nil {
		found = append(found, "valkey-server")
	}
	return found
}

func TestOneServer(t *testing.T) {
	for _, program := range programs() {
		t.Run(program, func(t *testing.T) { exam(t, redistest.New(t, redistest.Options{Program: program}).Addr()) })
	}
}

func TestRedisCluster(t *testing.T) {
	for _, program := range programs() {
		t.Run(program, func(t *testing.T) {
			all, err := redistest.StartCluster(t.Context(), 3, redistest.Options{Program: program})
			require.NoError(t, err)
			for _, server := range all {
				server.EndWith(t)
			}
			exam(t, redistest.Addrs(all)...)
			client := connect(t, all[0].Addr())
			require.Equal(t, rueidis.ClientModeCluster, client.Mode())
			s := open(t, client, redisstore.Config{})
			for i := range 200 {
				require.NoError(t, s.Put(t.Context(), &cluster.Record{Session: fmt.Sprint(i), Fence: owner}, time.Hour))
			}
			for address, node := range client.Nodes() {
				n, err := node.Do(t.Context(), node.B().Dbsize().Build()).AsInt64()
				require.NoError(t, err)
				require.Greater(t, n, int64(30), "sessions are on every shard: %s", address)
			}
		})
	}
}

// TestARestart takes the exam of directories with an engine that forgets because it is killed and started again.
func TestARestart(t *testing.T) {
	for _, program := range programs() {
		t.Run(program, func(t *testing.T) {
			server := redistest.New(t, redistest.Options{Program: program})
			clients := []rueidis.Client{connect(t, server.Addr()), connect(t, server.Addr())}
			forget := func() {
				require.NoError(t, server.Kill())
				require.NoError(t, server.Restart(context.Background()))
				for _, client := range clients {
					require.Eventually(t, func() bool { return client.Do(context.Background(), client.B().Ping().Build()).Error() == nil }, 10*time.Second, time.Millisecond)
				}
			}
			clustertest.Run(t, clustertest.Features{}, func(t testing.TB) clustertest.Engine {
				flush(t, clients[0])
				s := open(t, clients[0], redisstore.Config{})
				return clustertest.Engine{
					Directory: s, Store: s, Forget: forget,
					Another: func(t testing.TB) (cluster.Directory, eventstore.Store) {
						s := open(t, clients[1], redisstore.Config{})
						return s, s
					},
				}
			})
		})
	}
}
