package torture_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const grace = 20 * time.Second // of a process that is replaced

// pod is a process of a fleet.
type pod struct {
	*rejoin.Server
	host string
	log  *kit.Log

	mu       sync.Mutex
	deadline time.Time // when its grace ends; zero: it does not drain
}

// isLate reports whether the grace of a process has ended.
func (p *pod) isLate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.deadline.IsZero() && !time.Now().Before(p.deadline)
}

// isLate reports whether the grace of a process with that name has ended.
func (f *fleet) isLate(host string) bool {
	return slices.ContainsFunc(f.started(), func(p *pod) bool { return p.host == host && p.isLate() })
}

// fleet is a cluster of three processes behind a balancer without stickiness, which are replaced while guests call their tools. A seed determines what
// the guests do.
type fleet struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	net    *kit.Network // between the processes, and before them
	spray  *spray
	engine *cluster.Memory
	pods   []*pod // that are to serve
	all    []*pod
	works  works

	diary

	mu       sync.Mutex
	over     bool            // guests come to an end
	sessions map[string]bool // keys of all sessions; false: it has ended
}

func newFleet(t *testing.T, seed uint64) *fleet {
	t.Helper()
	f := &fleet{
		t: t, seed: seed, diary: diary{began: time.Now()}, net: kit.NewNetwork(t), engine: cluster.NewMemory(eventstore.MemoryConfig{}), sessions: map[string]bool{},
	}
	f.random = f.rand("story")
	f.works.of, f.works.tickers = map[string]*work{}, map[string][]*ticker{}
	f.spray = newSpray(f)
	for i := range 3 {
		f.pods = append(f.pods, f.start(fmt.Sprint("p", i)))
	}
	return f
}

// rand returns a source that depends only on the seed and on its use.
func (f *fleet) rand(what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	return rand.New(rand.NewPCG(f.seed, h.Sum64()))
}

// start starts a process, to which the balancer sends requests from then on.
func (f *fleet) start(host string) *pod {
	f.t.Helper()
	p := &pod{host: host, log: &kit.Log{}}
	link := clustertest.NewFaulty(f.engine, f.engine, nil)
	var err error
	p.Server, err = rejoin.NewServer(f.app(p), rejoin.Config{
		Store: link, KeepAlive: -1, StoreTimeout: time.Second, Logger: slog.New(slog.NewTextHandler(p.log, nil)),
		Policy:  rejoin.Policy{Retry: 500 * time.Millisecond},
		Cluster: &rejoin.Cluster{Name: "test", Self: "http://" + host, Lease: lease, Transport: f.net.Transport(host)},
	})
	require.NoError(f.t, err)
	f.net.Serve(host, stdadapter.New(p.Server))
	synctest.Wait() // it joins
	f.mu.Lock()
	f.all = append(f.all, p)
	f.mu.Unlock()
	f.spray.add(host)
	f.say("%s starts", host)
	return p
}

// stop ends a process as a deployment does: it drains, its listener goes away, and it is closed. The balancer knows nothing of it.
func (f *fleet) stop(p *pod) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	p.mu.Lock()
	p.deadline = time.Now().Add(grace)
	p.mu.Unlock()
	f.say("%s drains", p.host)
	err := p.Drain(ctx)
	f.say("%s has drained: %v", p.host, err)
	f.mu.Lock()
	late := time.Duration(f.random.IntN(4)) * time.Second // it still gets requests
	f.mu.Unlock()
	kit.Elapse(late)
	f.net.Refuse(p.host, true)
	kit.Elapse(time.Millisecond) // http.Server drops what it reads at the very moment of Shutdown
	if err := f.net.Shutdown(p.host, grace); err != nil {
		f.say("%s: Shutdown: %v", p.host, err)
	}
	p.Close()
	if err := f.net.Shutdown(p.host, 5*time.Second); err != nil {
		f.fault("%s is closed, and its requests do not end: %v", p.host, err)
	}
	f.say("%s has ended", p.host)
}

func (f *fleet) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over || f.failed()
}

func (f *fleet) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
}

// note notes that a session is there, or has ended.
func (f *fleet) note(id string, lives bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[kit.KeyOf(id)] = lives
}

// audit checks, when all guests have gone, that nothing of them is left.
func (f *fleet) audit() {
	kit.Elapse(2 * lease)
	for _, p := range f.all {
		if now := p.Stats(); now.Sessions+now.Connections+now.Streams != 0 {
			f.fault("%s: left: %d sessions, %d connections, %d streams", p.host, now.Sessions, now.Connections, now.Streams)
		}
	}
	for key := range f.sessions {
		if _, err := f.engine.Find(f.t.Context(), key, cluster.Process{}); err == nil {
			f.fault("the engine still has the record of %s", short(key))
		}
	}
	if bytes, _ := f.engine.Usage(); bytes > 0 {
		f.fault("the engine still has logs: %d bytes", bytes)
	}
}

// close ends all processes.
func (f *fleet) close() {
	for _, p := range f.all {
		p.Close()
	}
	for _, p := range f.pods {
		_ = f.net.Shutdown(p.host, time.Second)
	}
	f.net.CloseIdle()
	kit.Elapse(time.Minute)
}
