package cluster_test

import (
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

var (
	seeds = flag.Int("seeds", 300, "random histories of a cluster")
	from  = flag.Int("from", 0, "the seed of the first one")
)

// machine is a process of the torture test, and the network around it.
type machine struct {
	*rejoin.Server
	name, self string
	link       *clustertest.Faulty
	watch      *watcher

	// The torture's mutex guards what follows.
	dead    bool
	closing bool // Close was called, or a drain may have done that
	away    bool // it cannot reach the engine
	wires   map[*wire]bool
}

// host is its name in the network.
func (p *machine) host() string { return strings.TrimPrefix(p.self, "http://") }

// torture is one random history of a cluster of three processes, determined by a seed. Clients open sessions, call tools, cut their connections, poll
// and end their sessions. Meanwhile processes die without a word and are replaced, lose the engine for shorter and longer than a lease, get no
// answers, and the engine loses its data. In the end each event was read once and in order, or a fault explains why it was not.
type torture struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	began  time.Time
	engine *chronicle
	net    *kit.Network // between the processes
	moods  hardships

	traced sync.Mutex
	trace  []string
	faults []string

	mu       sync.Mutex
	slots    []*machine // by Self
	graves   []*machine // those that were replaced
	started  int
	orphans  int // records that are left, and explained
	tales    map[string]*tale
	runs     map[string]*run
	refs     map[rejoin.SessionRef]string // keys of sessions
	meanings map[string]string            // data and stream, by event id
	calm     bool                         // no more faults, and clients come to an end
	deadline time.Time                    // when they must have come to it; zero before that
	failing  bool                         // single operations fail
	planned  bool                         // an adoption is no reason for a loss
}

// hardships are what may happen in a history.
type hardships struct {
	kills, cuts, forgets, single, slow bool
}

func (tt *torture) say(format string, args ...any) {
	tt.traced.Lock()
	defer tt.traced.Unlock()
	tt.trace = append(tt.trace, fmt.Sprintf("%8.3fs ", time.Since(tt.began).Seconds())+fmt.Sprintf(format, args...))
}

// fault records what must not happen. Any goroutine may call it; check fails the test.
func (tt *torture) fault(format string, args ...any) {
	tt.say("FAULT: "+format, args...)
	tt.traced.Lock()
	defer tt.traced.Unlock()
	tt.faults = append(tt.faults, fmt.Sprintf(format, args...))
}

// failed reports whether a fault was found.
func (tt *torture) failed() bool {
	tt.traced.Lock()
	defer tt.traced.Unlock()
	return len(tt.faults) > 0
}

func (tt *torture) check() {
	tt.t.Helper()
	tt.traced.Lock()
	defer tt.traced.Unlock()
	if len(tt.faults) > 0 {
		tt.t.Errorf("seed %d (-from %d -seeds 1): %s\n%s", tt.seed, tt.seed, tt.faults[0], strings.Join(tt.trace[max(0, len(tt.trace)-250):], "\n"))
	}
}

// rand returns a source that depends only on the seed and on its use.
func (tt *torture) rand(what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	return rand.New(rand.NewPCG(tt.seed, h.Sum64()))
}

// keyOf is the name of a session in the engine.
func keyOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "test/" + base64.RawURLEncoding.EncodeToString(sum[:20])
}

// Whatever dies, and whatever the engine loses, no event is lost that the owner or the engine still has; none comes twice; and no call hangs.
func TestTortureOfACluster(t *testing.T) {
	first, n := uint64(*from), uint64(max(1, *seeds/kit.Fewer))
	oneAtATime(t)
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		kit.Bubble(t, func(t *testing.T) {
			tt := newTorture(t, seed)
			dice := tt.random.IntN(1 << 5)
			tt.moods = hardships{kills: dice&1 > 0, cuts: dice&2 > 0, forgets: dice&4 > 0, single: dice&8 > 0, slow: dice&16 > 0}
			tt.tell()
		})
	}
}

func newTorture(t *testing.T, seed uint64) *torture {
	tt := &torture{
		t: t, seed: seed, began: time.Now(), tales: map[string]*tale{}, runs: map[string]*run{}, meanings: map[string]string{}, refs: newRefs(),
	}
	tt.random = tt.rand("story")
	tt.engine = newChronicle(tt.fault, tt.say)
	tt.net = kit.NewNetwork(t)
	return tt
}

func newRefs() map[rejoin.SessionRef]string { return map[rejoin.SessionRef]string{} }

func (tt *torture) tell() {
	tt.say("%+v", tt.moods)
	for i := range 3 {
		tt.slots = append(tt.slots, tt.start(fmt.Sprintf("http://%d", i)))
	}
	synctest.Wait()
	var clients sync.WaitGroup
	for i := range 3 {
		c := &client{tt: tt, name: string(rune('a' + i))}
		c.random = tt.rand("client" + c.name)
		clients.Go(c.live)
	}
	for end := time.Now().Add(time.Duration(40+tt.random.IntN(40)) * time.Second); time.Now().Before(end) && !tt.failed(); {
		kit.Elapse(time.Duration(tt.random.IntN(6000)) * time.Millisecond)
		tt.strike()
	}
	tt.settle()
	clients.Wait()
	if !tt.failed() {
		kit.Elapse(2 * lease)
		tt.audit()
	}
	tt.close()
	tt.check()
}

// close ends all processes.
func (tt *torture) close() {
	for _, p := range append(tt.slots, tt.graves...) {
		p.Close()
	}
	kit.Elapse(time.Minute)
}

// start starts a process.
func (tt *torture) start(self string) *machine {
	p := &machine{self: self, watch: tt.engine.watch(), wires: map[*wire]bool{}}
	tt.started++
	p.name = fmt.Sprintf("p%d", tt.started)
	p.link = clustertest.NewFaulty(p.watch, p.watch, tt.script(p))
	random := tt.rand(p.name)
	cfg := rejoin.Config{
		Store: p.link, KeepAlive: -1, StoreTimeout: time.Second, Logger: kit.QuietLogger(),
		Policy: rejoin.Policy{Retry: 500 * time.Millisecond, AbandonAfter: -1},
		Cluster: &rejoin.Cluster{
			Name: "test", Self: self, Transport: noting{tt.net.Transport(p.host())}, Lease: lease, Outage: []time.Duration{-1, 3 * time.Second, 30 * time.Second}[random.IntN(3)],
		},
	}
	if random.IntN(2) == 0 {
		cfg.Policy.CloseAfter = 1500 * time.Millisecond
	}
	var err error
	p.Server, err = rejoin.NewServer(tt.app(p), cfg)
	require.NoError(tt.t, err)
	tt.net.Serve(p.host(), tt.forwardedTo(p))
	tt.say("%s starts at %s, outage %v", p.name, self, cfg.Cluster.Outage)
	return p
}

// audit checks, when nothing has happened for a while, that nothing is left.
func (tt *torture) audit() {
	for _, p := range tt.slots {
		left := 0
		for s := range p.Sessions() {
			tt.mu.Lock()
			key := tt.refs[s.Ref]
			t := tt.tale(key)
			why := !t.known || t.lost || t.unended
			tt.mu.Unlock()
			if !why {
				tt.fault("%s: left: session %s with %d streams", p.name, short(key), len(s.Streams))
			}
			left++
		}
		if now := p.Stats(); left == 0 && now.Sessions+now.Connections+now.Streams != 0 {
			tt.fault("%s: left: %d sessions, %d connections, %d streams", p.name, now.Sessions, now.Connections, now.Streams)
		}
	}
	tt.engine.mu.Lock()
	defer tt.engine.mu.Unlock()
	for key, h := range tt.engine.sessions {
		found, err := tt.engine.engine.Find(tt.t.Context(), key, cluster.Process{})
		if err != nil {
			continue
		}
		tt.orphans++
		tt.mu.Lock()
		t := tt.tale(key)
		why := !t.known || t.lost || t.unended
		tt.mu.Unlock()
		if !why {
			tt.fault("the engine still has the record of %s, owner %s, of %d", short(key), short(found.Record.Fence.Incarnation), len(h.owners))
		}
	}
	if bytes, _ := tt.engine.engine.Usage(); tt.orphans == 0 && bytes > 0 {
		tt.fault("the engine still has logs: %d bytes", bytes)
	}
}
