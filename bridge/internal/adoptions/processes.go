package adoptions

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Lease is how long a process must be silent until others adopt its sessions.
const Lease = 9 * time.Second

// Processes are rejoin servers that share an engine, each with its own way to it. As an http.Handler they are one of them.
type Processes struct {
	Engine  *cluster.Memory
	Servers []*rejoin.Server
	Links   []*clustertest.Faulty
	Values  func(*http.Request) context.Context // returns the context of a request, for all of them; nil: it stays as it is

	log     *slog.Logger
	serving atomic.Int32 // the process that gets the requests
}

// Start starts a process for each app, in the bubble of t. The first one gets the requests. log may be nil.
func Start(t *testing.T, log *slog.Logger, apps ...rejoin.App) *Processes {
	t.Helper()
	p := &Processes{Engine: cluster.NewMemory(eventstore.MemoryConfig{}), log: log}
	if log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	t.Cleanup(func() { elapse(time.Hour) }) // after all others: operations that are under way end
	for _, app := range apps {
		p.add(t, app)
	}
	synctest.Wait() // they join
	return p
}

func (p *Processes) add(t *testing.T, app rejoin.App) {
	t.Helper()
	link := clustertest.NewFaulty(p.Engine, p.Engine, nil)
	srv, err := rejoin.NewServer(app, rejoin.Config{
		Store: link, KeepAlive: -1, StoreTimeout: time.Second, Logger: p.log, Eras: rejoin.EraLegacy,
		Principal: func(r *http.Request) string { return r.Header.Get("X-User") },
		Cluster:   &rejoin.Cluster{Name: "test", Self: fmt.Sprint("http://", len(p.Servers)), Lease: Lease, Transport: unreachable{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Servers, p.Links = append(p.Servers, srv), append(p.Links, link)
	t.Cleanup(func() {
		link.SetLink(clustertest.Up)
		srv.Close()
	})
}

// Connect opens a session of a client, as the configuration says.
func (p *Processes) Connect(t *testing.T, cfg rejointest.Config) *rejointest.Client {
	t.Helper()
	cfg.Handler = func(*rejoin.Server) http.Handler { return p }
	unused := rejoin.NewApp(rejoin.Info{Name: "unused", Version: "1"}, func(context.Context, *rejoin.Request) (any, error) { return struct{}{}, nil })
	return rejointest.New(t, unused, cfg)
}

func (p *Processes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.Values != nil {
		r = r.WithContext(p.Values(r))
	}
	stdadapter.New(p.Servers[p.serving.Load()]).ServeHTTP(w, r)
}

// Kill ends a process without a word: nothing of it reaches the engine any more. It returns when the others know.
func (p *Processes) Kill(n int) {
	p.Links[n].SetLink(clustertest.Refused)
	elapse(3 * Lease)
}

// Return lets a process reach the engine again, and returns when it has learned what has happened meanwhile.
func (p *Processes) Return(n int) {
	p.Links[n].SetLink(clustertest.Up)
	elapse(Lease)
}

// Use sends the requests to a process from now on.
func (p *Processes) Use(n int) { p.serving.Store(int32(n)) } //nolint:gosec // there are few

func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// unreachable is a network between processes on which nothing arrives: these tests are about what happens without the owner.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}
