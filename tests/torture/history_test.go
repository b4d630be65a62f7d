package torture_test

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
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
	logs  = flag.Bool("logs", false, "tell what the processes log, too")
)

const lease = 9 * time.Second

// machine is a process of the torture test, and the network around it.
type machine struct {
	*rejoin.Server
	name, self string
	link       *clustertest.Faulty
	watch      *watcher
	born       time.Time

	// The torture's mutex guards what follows.
	dead     bool
	away     bool          // it cannot reach the engine
	draining bool          // its end is planned, and
	deadline time.Time     // it is given time until then
	out      bool          // the balancer sends it nothing
	closed   bool          // it has come to its planned end
	closing  bool          // Close was called, or a drain may have done that
	frozen   chan struct{} // it makes no progress until this is closed; nil: it does
	wires    map[*wire]bool
	serving  int // requests that others have forwarded to it
}

// host is its name in the network.
func (p *machine) host() string { return strings.TrimPrefix(p.self, "http://") }

// torture is one random history of a cluster of three processes, determined by a seed. Clients open sessions, call tools, cut their connections, poll
// and end their sessions. Meanwhile processes die without a word and are replaced, drain and are replaced, lose the engine or the others for shorter and
// longer than a lease, get no answers, make no progress, and the engine loses its data. In the end each event was read once and in order, or a
// fault explains why it was not.
type torture struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	engine *chronicle
	net    *kit.Network // between the processes
	moods  hardships
	tally  tally

	diary

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
	turns    int                          // of a balancer that takes the processes in turn
	parting  int                          // partitions that last
	parted   time.Time                    // when the last one ended
	plans    sync.WaitGroup               // planned ends
}

// hardships are what may happen in a history.
type hardships struct {
	kills, cuts, forgets, single, slow bool
	drains, parts, stalls              bool
	planned                            bool // only drains: nothing may be lost, and no client sees 404 or 5xx
	robin                              bool // the balancer takes the processes in turn
	clocks                             bool // those of the processes differ by years
	tails                              bool // the processes keep few events themselves
}

// rand returns a source that depends only on the seed and on its use.
func (tt *torture) rand(what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	return rand.New(rand.NewPCG(tt.seed, h.Sum64()))
}

// Whatever dies, and whatever the engine loses, no event is lost that the owner or the engine still has; none comes twice; and no call hangs.
func TestTortureOfACluster(t *testing.T) {
	first, n := uint64(*from), uint64(max(1, *seeds/kit.Fewer))
	oneAtATime(t)
	var all tally
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		tellSeed(t, seed, &all)
	}
	t.Log(all.String())
	if n >= enough && !t.Failed() {
		require.Empty(t, all.missing(), "these never happened")
	}
}

// tellSeed tells the history of a seed.
func tellSeed(t *testing.T, seed uint64, all *tally) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		tt := newTorture(t, seed)
		tt.moods = tt.mood()
		tt.tell()
		all.add(&tt.tally)
	})
}

// mood determines what may happen.
func (tt *torture) mood() hardships {
	dice := tt.rand("mood").IntN(1 << 12)
	is := func(bit int) bool { return dice>>bit&1 > 0 }
	if dice%5 == 0 {
		return hardships{drains: true, planned: true, slow: is(4), robin: is(5), clocks: is(6)}
	}
	return hardships{
		kills: is(0), cuts: is(1), forgets: is(2), single: is(3), slow: is(4), robin: is(5), clocks: is(6), drains: is(7), parts: is(8), stalls: is(9),
		tails: is(10) && is(11),
	}
}

func newTorture(t *testing.T, seed uint64) *torture {
	tt := &torture{
		t: t, seed: seed, diary: diary{began: time.Now()}, tales: map[string]*tale{}, runs: map[string]*run{}, meanings: map[string]string{}, refs: newRefs(),
	}
	tt.random = tt.rand("story")
	tt.engine = newChronicle(tt.fault, tt.say, &tt.tally)
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
	tt.plans.Wait()
	if !tt.failed() {
		kit.Elapse(2 * lease)
		tt.audit()
	}
	tt.close()
	tt.check(tt.t, "-from %d -seeds 1", tt.seed)
}

// close ends all processes.
func (tt *torture) close() {
	for _, p := range append(tt.slots, tt.graves...) {
		tt.tally.count(p.Stats())
		p.Close()
	}
	kit.Elapse(time.Minute)
}

// start starts a process.
func (tt *torture) start(self string) *machine {
	p := &machine{self: self, born: time.Now(), watch: tt.engine.watch(), wires: map[*wire]bool{}}
	tt.started++
	p.name = fmt.Sprintf("p%d", tt.started)
	p.link = clustertest.NewFaulty(tt.clock(p), p.watch, tt.script(p))
	random := tt.rand(p.name)
	cfg := rejoin.Config{
		Store: p.link, KeepAlive: -1, StoreTimeout: time.Second, Logger: tt.logger(p),
		Policy: rejoin.Policy{Retry: 500 * time.Millisecond, AbandonAfter: -1},
		Cluster: &rejoin.Cluster{
			Name: "test", Self: self, Transport: noting{tt.net.Transport(p.host())}, Lease: lease,
			Outage: []time.Duration{-1, 3 * time.Second, 30 * time.Second}[random.IntN(3)],
		},
	}
	if random.IntN(2) == 0 {
		cfg.Policy.CloseAfter = 1500 * time.Millisecond
	}
	if tt.moods.tails {
		cfg.Cluster.TailBytes = 500
	}
	var err error
	p.Server, err = rejoin.NewServer(tt.app(p), cfg)
	require.NoError(tt.t, err)
	tt.net.Serve(p.host(), tt.forwardedTo(p))
	tt.say("%s starts at %s, outage %v", p.name, self, cfg.Cluster.Outage)
	return p
}

// logger is what a process logs to.
func (tt *torture) logger(p *machine) *slog.Logger {
	if !*logs {
		return kit.QuietLogger()
	}
	return slog.New(slog.NewTextHandler(saying{tt, p.name}, nil))
}

// saying puts what is logged into the trace.
type saying struct {
	tt   *torture
	name string
}

func (w saying) Write(line []byte) (int, error) {
	w.tt.say("%s logs: %s", w.name, bytes.TrimSpace(line))
	return len(line), nil
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
