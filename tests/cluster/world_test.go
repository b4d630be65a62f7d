package cluster_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const lease = 9 * time.Second

// process is a server that shares an engine with others, and its way to that engine.
type process struct {
	*rejoin.Server
	link *clustertest.Faulty
	next func() *kit.ManualTool // the next call of its tools
	log  *kit.Log
}

// world is one engine, the processes of a cluster, and a client whose requests go to one of them.
type world struct {
	*rejointest.Client
	t         *testing.T
	net       *kit.Network
	engine    *cluster.Memory
	processes []*process
	serving   atomic.Int32 // the process that gets the client's requests
	id        atomic.Value // of the client's session; a string
}

// options of a world; zero: defaults.
type options struct {
	policy  rejoin.Policy
	instant bool // the engine's store is called as one in memory
	cluster func(*rejoin.Cluster)
	config  func(*rejoin.Config)
	app     func(n int) (rejoin.App, func() *kit.ManualTool) // of a process
	version string
	engine  eventstore.MemoryConfig
	front   func(http.Handler) http.Handler // middleware between the client and every process but the first
	http    func(*http.Server)
	// onRequest answers the server's requests to the client.
	onRequest func(method string, params json.RawMessage) (any, error)
}

func (o *options) start(t *testing.T, w *world, self string) *process {
	t.Helper()
	if o.app == nil {
		o.app = func(int) (rejoin.App, func() *kit.ManualTool) { return kit.ManualTools() }
	}
	p := &process{link: clustertest.NewFaulty(w.engine, w.engine, nil), log: &kit.Log{}}
	p.link.SetInstant(o.instant)
	app, next := o.app(len(w.processes))
	p.next = next
	cfg := o.configOf(w, p, self)
	var err error
	p.Server, err = rejoin.NewServer(app, cfg)
	require.NoError(t, err)
	w.net.Serve(strings.TrimPrefix(self, "http://"), stdadapter.New(p.Server), o.http)
	return p
}

func (o *options) configOf(w *world, p *process, self string) rejoin.Config {
	c := &rejoin.Cluster{Name: "test", Self: self, Lease: lease, Transport: w.net.Transport(strings.TrimPrefix(self, "http://"))}
	if o.cluster != nil {
		o.cluster(c)
	}
	cfg := rejoin.Config{
		Store: p.link, KeepAlive: -1, Policy: o.policy, Cluster: c, StoreTimeout: time.Second, Logger: slog.New(slog.NewTextHandler(p.log, nil)),
	}
	if o.config != nil {
		o.config(&cfg)
	}
	return cfg
}

// newWorld starts two processes and opens a session at the first.
func newWorld(t *testing.T, o options) *world {
	t.Helper()
	w := &world{t: t, net: kit.NewNetwork(t), engine: cluster.NewMemory(o.engine)}
	first := &process{link: clustertest.NewFaulty(w.engine, w.engine, nil), log: &kit.Log{}}
	first.link.SetInstant(o.instant)
	if o.app == nil {
		o.app = func(int) (rejoin.App, func() *kit.ManualTool) { return kit.ManualTools() }
	}
	app, next := o.app(0)
	first.next = next
	w.processes = []*process{first}
	w.Client = rejointest.New(t, app, rejointest.Config{
		Server: o.configOf(w, first, "http://0"), Version: o.version, OnRequest: o.onRequest,
		Handler: func(s *rejoin.Server) http.Handler {
			first.Server = s
			w.net.Serve("0", stdadapter.New(s), o.http)
			synctest.Wait() // it joins
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if id := r.Header.Get("Mcp-Session-Id"); id != "" {
					w.id.Store(id)
				}
				n := w.serving.Load()
				h := stdadapter.New(w.processes[n].Server)
				if n > 0 && o.front != nil {
					h = o.front(h)
				}
				h.ServeHTTP(rw, r)
			})
		},
		HTTP: o.http,
	})
	w.add(o)
	return w
}

// add starts one more process.
func (w *world) add(o options) *process {
	w.t.Helper()
	return w.addAt(o, fmt.Sprintf("http://%d", len(w.processes)))
}

// addAt is add for a process whose address may be that of another one.
func (w *world) addAt(o options, self string) *process {
	w.t.Helper()
	p := o.start(w.t, w, self)
	w.processes = append(w.processes, p)
	w.t.Cleanup(func() {
		p.link.SetLink(clustertest.Up)
		p.Close()
	})
	synctest.Wait()
	return p
}

// session is the id of the client's session.
func (w *world) session() string { return w.id.Load().(string) }

// use sends the client's requests to a process from now on.
func (w *world) use(n int) *process {
	w.serving.Store(int32(n))
	return w.processes[n]
}

// kill ends a process without a word: nothing of it reaches the engine or the client any more. It returns when the others know.
func (w *world) kill(n int) {
	w.processes[n].link.SetLink(clustertest.Refused)
	elapse(3 * lease)
}

func elapse(d time.Duration) {
	kit.Elapse(d)
	synctest.Wait()
}
