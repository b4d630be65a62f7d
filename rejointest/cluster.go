package rejointest

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// defaultProcesses is how many processes a cluster begins with: with three of them, a request and its polls reach the owner and others.
const defaultProcesses = 3

// Cluster is several processes that share their sessions over one engine (rejoin.Cluster). Clients reach them through a balancer without
// stickiness: each request goes to the next process that accepts connections. Call its methods from the test's goroutine.
type Cluster struct {
	*world

	app    func() rejoin.App
	engine *cluster.Memory // of processes whose configuration has no store
}

// NewCluster starts Config.Processes processes. app is called once for each, because no two processes share an app or the server of an SDK. The
// engine is a cluster.NewMemory, unless Config.Server or Config.Each have a Store. Call it in the bubble of synctest.Test, with the bubble's t. It
// fails the test if there is no bubble, or if a configuration is refused. Everything ends in a cleanup of t, as New says.
func NewCluster(t testing.TB, app func() rejoin.App, cfg Config) *Cluster {
	t.Helper()
	if cfg.Processes == 0 {
		cfg.Processes = defaultProcesses
	}
	c := &Cluster{world: newWorld(t, "NewCluster", cfg), app: app, engine: cluster.NewMemory(eventstore.MemoryConfig{})}
	for range cfg.Processes {
		c.Start()
	}
	return c
}

// NewClient opens a session of another client, with Config's settings.
func (c *Cluster) NewClient() *Client {
	c.t.Helper()
	return c.world.newClient(true)
}

// Processes returns all processes in the order in which they were started, also those that have ended.
func (c *Cluster) Processes() []*Process { return c.all() }

// Start starts one more process, with a Self of its own, as Kubernetes does.
func (c *Cluster) Start() *Process {
	c.t.Helper()
	n := len(c.all())
	return c.startAt(&net.TCPAddr{IP: net.IPv4(198, 51, 100, byte(1+n%250)), Port: 8080 + n/250})
}

// Restart starts a new process with the Self of one that has ended, as a supervisor on the same machine does. The others know at once that the
// earlier one is dead. It fails the test if the process has not ended.
func (c *Cluster) Restart(p *Process) *Process {
	c.t.Helper()
	if !p.ended() {
		c.t.Fatalf("rejointest: Restart: %v runs", p)
	}
	return c.startAt(p.addr)
}

// Spray sends clients' requests to these processes in turn from now on, the next one to the first of them; without arguments, to all again.
// Connections that are open stay.
func (c *Cluster) Spray(to ...*Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spray, c.turn = slices.Clone(to), 0
}

func (c *Cluster) startAt(addr *net.TCPAddr) *Process {
	c.t.Helper()
	p := &Process{n: len(c.all()), addr: addr}
	c.start(p, func() (*rejoin.Server, error) {
		cfg := c.configOf(p)
		directory := cfg.Cluster.Directory
		if directory == nil {
			directory, _ = cfg.Store.(cluster.Directory)
		}
		if directory != nil { // without one, NewServer says what is missing
			p.link = clustertest.NewFaulty(directory, cfg.Store, nil)
			cfg.Store, cfg.Cluster.Directory = p.link, p.link
		}
		return rejoin.NewServer(c.app(), cfg)
	})
	synctest.Wait() // it joins
	return p
}

// configOf is the configuration of a process, before it has its own way to the engine.
func (c *Cluster) configOf(p *Process) rejoin.Config {
	c.t.Helper()
	cfg := c.cfg.Server
	if cfg.Store == nil {
		cfg.Store = c.engine
	}
	if cfg.Node == "" {
		cfg.Node = fmt.Sprint("p", p.n)
	}
	member := rejoin.Cluster{}
	if cfg.Cluster != nil {
		member = *cfg.Cluster
	}
	if member.Name == "" {
		member.Name = "rejointest"
	}
	member.Self = p.Self()
	if member.Transport == nil {
		member.Transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000, DialContext: c.dialFrom(p)}
	}
	cfg.Cluster = &member
	if c.cfg.Each != nil {
		c.cfg.Each(p.n, &cfg)
	}
	if cfg.Cluster == nil || cfg.Cluster.Self != p.Self() {
		c.t.Fatal("rejointest: Config.Each must leave Cluster and its Self as they are")
	}
	cfg.Logger = slog.New(mortal{cfg.Logger.Handler(), p}).With("process", p.n)
	return cfg
}
