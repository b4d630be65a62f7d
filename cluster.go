package rejoin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/hop"
	"github.com/rejoin-mcp/rejoin/internal/member"
)

// Cluster makes several processes serve one set of sessions and tasks over a shared store. Each session has one owner, a process that runs its tools.
// When the owner is dead, the process that gets the next request of the session becomes the owner (adoption): results that were recorded are
// served as ever, the app opens the session with what Session.SaveState saved, and each request that was running is answered with an error
// with the data.reason ReasonOwnerLost. A task that was running has failed, with the same reason. A process that is to end hands over what it has:
// see Server.Drain.
//
// As long as the owner is alive, requests may reach any process: it sends them on to the owner, through the owner's router and middleware, and passes
// the answers on. So authentication, the principal and the values of the request's context are those of the owner's router. What travels between two
// processes are the clients' own requests, with their credentials.
type Cluster struct {
	// Name is the name of the cluster: at most 64 letters, digits, '-', '_' and '.'. Servers with another name share nothing, also on the same
	// engine.
	Name string
	// Self is the URL at which the other processes reach the router of this one, such as http://10.1.2.3:8080. It must not be the address of a
	// load balancer. If a process starts with the Self of an earlier one, the earlier one is dead for all others at once.
	Self string
	// Transport sends requests to other processes, for example with their certificates. By default they go over plain HTTP/1.1 or TLS, through no proxy,
	// with up to 1,000 idle connections to each process.
	Transport http.RoundTripper
	// Directory knows the owner of each session. Defaults to Config.Store, which must be a cluster.Directory then. The directory and the store must
	// be of the same engine.
	Directory cluster.Directory
	// Lease is how long an owner may be silent before its sessions are adopted. A process renews its lease every third of it. Defaults to 10 s.
	Lease time.Duration
	// Outage is how long an event waits, unsent, when the engine does not answer. After that it is delivered without an id; events have ids again
	// when the engine is back. Off: such events do not wait. Defaults to 30 s.
	Outage time.Duration
	// TailBytes limits what this process keeps of the events of all its sessions, in addition to the engine: to serve reads, and to restore an
	// engine that has lost data. Defaults to 64 MiB. Off: no limit.
	TailBytes int64
}

// resolve fills in the defaults, and returns all mistakes. store is that of the Config.
func (c *Cluster) resolve(store any) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("Cluster."+format, args...)) }
	if !validName(c.Name, 64, ".") {
		fault("Name: %q: letters, digits, '-', '_' and '.', from 1 to 64", c.Name)
	}
	if u, err := url.Parse(c.Self); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		fault("Self: %q is not a URL such as http://10.1.2.3:8080", c.Self)
	} else if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		fault("Self: %q must be a scheme, a host and a port, and nothing else", c.Self)
	} else {
		c.Self = u.Scheme + "://" + strings.ToLower(u.Host) // one spelling
	}
	if c.Directory == nil {
		c.Directory, _ = store.(cluster.Directory)
	}
	if c.Directory == nil {
		fault("Directory: Config.Store is not a cluster.Directory, so one must be given")
	}
	switch {
	case c.Lease == 0:
		c.Lease = 10 * time.Second
	case c.Lease < time.Second:
		fault("Lease: %v is less than 1 s", c.Lease)
	}
	switch {
	case c.Outage == 0:
		c.Outage = 30 * time.Second
	case c.Outage < 0:
		c.Outage = 0
	}
	if c.TailBytes == 0 {
		c.TailBytes = 64 << 20
	}
	return faults
}

// engine is what the engine needs to know. c may be nil.
func (c *Cluster) engine() (e engine.ClusterConfig) {
	if c != nil {
		e.Outage, e.Tail = c.Outage, eventstore.NewMemory(eventstore.MemoryConfig{TotalBytes: c.TailBytes, SessionBytes: min(c.TailBytes, 0)})
	}
	return e
}

// recordFormat is the format of cluster.Record.About that this version of rejoin writes. A process adopts only sessions whose format it knows. A
// change that an older process could not read needs a new number; before such records are written, all processes of a cluster must know the
// number, so it is written only by the release after the one that can read it.
const recordFormat = 1

// node is this process in its cluster.
type node struct {
	Cluster

	srv     *Server
	process cluster.Process
	member  *member.Member
	ttl     time.Duration // of a record
	taskTTL time.Duration // of that of a task

	looked       chan struct{} // closed when a drain has asked who else is there, or at Close
	setLooked    func()        // closes it; may be called again
	letGo        atomic.Bool   // a drain has let clients go
	stopped      atomic.Bool   // it leaves the cluster
	left         atomic.Bool   // it has left
	restoring    atomic.Bool   // restoreAll works
	restoreAgain atomic.Bool   // and must begin once more
	adopting     atomic.Int64
	searching    atomic.Int64 // searches that look or adopt
	touching     atomic.Bool  // touchAll works
	touchFailed  atomic.Bool  // it could not touch all records
	touched      time.Time    // when the records were last touched; only the member's goroutine uses it

	forwarder *hop.Forwarder
	places    hop.Places
	unknown   hop.Budget // of searches that find nothing
	warnings  hop.Budget // of log lines about owners that are lost
	self      selfCheck

	mu       sync.Mutex
	searches map[string]*search // that run, by key
	failures map[string]int     // adoptions in a row that have failed, by key
	ended    map[string]bool    // keys of sessions that have ended here, and the directory does not know yet; false: they are being released
}

// nodes are the clusters that servers of this process are in. Two servers with the same Self would supersede each other for ever.
var nodes sync.Map // of nodeName

type nodeName struct {
	directory  cluster.Directory
	name, self string
}

func (n *node) name() nodeName { return nodeName{n.Directory, n.Name, n.Self} }

// newNode joins a cluster.
func newNode(srv *Server, cfg Cluster) (*node, error) {
	n := &node{
		Cluster: cfg, srv: srv, process: cluster.Process{Cluster: cfg.Name, Incarnation: rand.Text(), Self: cfg.Self},
		ttl: 24 * time.Hour, searches: map[string]*search{}, failures: map[string]int{}, ended: map[string]bool{}, touched: time.Now(),
		unknown: hop.Budget{Burst: maxUnknown, Per: time.Second}, warnings: hop.Budget{Burst: maxHopWarnings, Per: time.Minute},
	}
	n.looked = make(chan struct{})
	n.setLooked = sync.OnceFunc(func() { close(n.looked) })
	n.forwarder = hop.New(hop.Config{Transport: cfg.Transport, Self: cfg.Self, Lease: cfg.Lease, Gone: n.isGone})
	if idle := srv.cfg.SessionIdleTTL; idle > 0 {
		n.ttl = 2*idle + cfg.Lease
	}
	n.taskTTL = max(n.ttl, 2*srv.cfg.Tasks.TTL+cfg.Lease)
	if !reflect.TypeOf(cfg.Directory).Comparable() {
		return n, nil
	}
	if _, taken := nodes.LoadOrStore(n.name(), n); taken {
		return nil, fmt.Errorf("rejoin: invalid configuration: Cluster: another server of this process has the Name %q and the Self %q", cfg.Name, cfg.Self)
	}
	return n, nil
}

// start joins the cluster.
func (n *node) start() {
	n.member = member.Start(member.Config{
		Directory: n.Directory, Process: n.process, Lease: n.Lease, Timeout: n.srv.cfg.StoreTimeout,
		Lost: n.lost, Regained: n.regained, Doubted: n.restoreAll, Away: n.isAway, Superseded: n.superseded, Tick: n.tick,
	})
}

// leave leaves the cluster when the sessions have ended here and may be adopted, or when that takes too long. If there are sessions, it does that in a
// goroutine of its own.
func (n *node) leave() {
	n.forwarder.Stop() // also those that have come since an earlier Close
	if n.stopped.Swap(true) {
		return
	}
	n.forwarder.CloseIdle()
	if reflect.TypeOf(n.Directory).Comparable() {
		nodes.CompareAndDelete(n.name(), n)
	}
	if !n.hasSessions() {
		n.stop()
		return
	}
	go func() {
		for began := time.Now(); n.hasSessions() && time.Since(began) < leaveWithin; {
			time.Sleep(leaveWithin / 1000)
		}
		n.stop()
	}()
}

func (n *node) stop() {
	n.member.Stop()
	n.left.Store(true)
}

// leaveWithin limits how long a process stays in its cluster after Close, while connections of its sessions end.
const leaveWithin = 30 * time.Second

// hasSessions reports whether a session has not ended yet, or is not released yet.
func (n *node) hasSessions() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.ended) > 0 || n.srv.countSessions() > 0 || len(n.ownedTasks()) > 0
}

// key returns the name of a session in the directory and the store. The session id cannot be found from it.
func (n *node) key(id string) string {
	sum := sha256.Sum256([]byte(id))
	var room [128]byte // on the stack
	return string(base64.RawURLEncoding.AppendEncode(append(append(room[:0], n.Name...), '/'), sum[:20]))
}

// principalHash is what the record has of a principal. It does not show, to a reader of the engine, whose session it is, or which sessions belong to
// one principal.
func principalHash(id, principal string) string {
	h := hmac.New(sha256.New, []byte(id))
	h.Write([]byte(principal))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// deadline bounds an operation of the directory.
func (n *node) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if n.srv.cfg.StoreTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, n.srv.cfg.StoreTimeout)
}

// possession is what this process owns in the directory: a session or a task.
type possession struct {
	record      *member.Record
	ttl         time.Duration   // of the record
	restoreLogs func(lost bool) // gives the store what it is missing; lost: it may have lost what it had
	move        func()          // ends it here: another process owns it
}

// possessions returns all that this process owns.
func (n *node) possessions() (all []possession) {
	for _, s := range n.srv.all() {
		if s.record != nil {
			all = append(all, possession{s.record, n.ttl, s.engine.RestoreLogs, func() { s.end(core.Moved) }})
		}
	}
	for _, t := range n.ownedTasks() {
		all = append(all, possession{recordOf(t), n.taskTTL, t.Restore, t.Move})
	}
	return all
}

// lost restores what the engine has lost of the sessions of this process.
func (n *node) lost() {
	n.srv.log.Error("rejoin: the engine has lost data; this process restores the sessions that it owns", "cluster", n.Name)
	for _, p := range n.possessions() {
		p.record.MarkLost()
	}
	n.restoreAll()
}

// regained finds out which sessions others have adopted while the engine was away, and writes what it could not be given of the rest.
func (n *node) regained() {
	n.srv.log.Warn("rejoin: the engine answers again; this process goes on with the sessions that it still owns", "cluster", n.Name)
	n.restoreAll()
}

func (n *node) isAway(err error) {
	n.srv.log.Error("rejoin: the engine does not answer; sessions of this process go on, new ones are refused", "cluster", n.Name, "error", err)
}

// superseded ends all sessions of this process.
func (n *node) superseded() {
	n.srv.log.Error("rejoin: another process has started with the same Cluster.Self, so this one serves no session any more", "cluster", n.Name, "self", n.Self)
	for _, p := range n.possessions() {
		p.move()
	}
}

// tick restores what could not be restored before, and extends the lives of the records when it is time. Both have goroutines of their own: renewals
// must not wait for that. It is called after each renewal.
func (n *node) tick() {
	n.places.Age()
	if n.srv.engine.Draining() { // there may be another process now that can go on with the sessions
		n.srv.engine.Notify()
	}
	if n.anyLost() {
		n.restoreAll()
	}
	every := n.ttl / 3
	if n.touchFailed.Load() {
		every = n.Lease
	}
	if time.Since(n.touched) < every || !n.touching.CompareAndSwap(false, true) {
		return
	}
	n.touched = time.Now()
	go func() {
		defer n.touching.Store(false)
		n.touchFailed.Store(!n.touchAll())
	}()
}

// touchedAtOnce limits the records in one Touch.
const touchedAtOnce = 256

// touchAll reports whether it has extended the lives of all records. Those that the directory does not have any more are written again, unless another
// process owns the session.
func (n *node) touchAll() bool {
	records := map[time.Duration][]*member.Record{} // by their life
	for _, p := range n.possessions() {
		records[p.ttl] = append(records[p.ttl], p.record)
	}
	all := true
	for ttl, some := range records {
		all = n.touchEach(some, ttl) && all
	}
	return all
}

func (n *node) touchEach(all []*member.Record, ttl time.Duration) bool {
	var held []cluster.Held
	records := make(map[string]*member.Record, len(all))
	for _, r := range all {
		if r.Recorded() {
			held = append(held, cluster.Held{Session: r.Key, Fence: r.Fence})
			records[r.Key] = r
		}
	}
	for some := range slices.Chunk(held, touchedAtOnce) {
		missing, err := n.touch(some, ttl)
		for i := range missing {
			if r := records[missing[i].Session]; r != nil {
				r.MarkLost()
			}
		}
		if err != nil {
			return false
		}
	}
	return true
}

func (n *node) touch(held []cluster.Held, ttl time.Duration) (missing []cluster.Held, err error) {
	ctx, cancel := n.deadline(context.Background())
	defer cancel()
	err = member.Safely(func() (err error) {
		missing, err = n.Directory.Touch(ctx, held, ttl)
		return err
	})
	return missing, err
}

// restoreAll gives the engine what it is missing of all sessions of this process, in a goroutine of its own. What fails is tried again after the next
// renewal.
func (n *node) restoreAll() {
	n.restoreAgain.Store(true)
	if !n.restoring.CompareAndSwap(false, true) {
		return
	}
	go func() {
		for n.restoreAgain.Swap(false) {
			n.restoreOnce()
		}
		n.restoring.Store(false)
		if n.restoreAgain.Load() {
			n.restoreAll()
		}
	}()
}

// restoredAtOnce limits the sessions that are restored at the same time.
const restoredAtOnce = 16

func (n *node) restoreOnce() {
	var wait sync.WaitGroup
	slots := make(chan struct{}, restoredAtOnce)
	for _, p := range n.possessions() {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			p.restore()
		})
	}
	wait.Wait()
}

// restore gives the engine what it is missing.
func (p *possession) restore() {
	lost := p.record.IsLost()
	if lost {
		p.record.Found()
		if p.record.Restore() != nil {
			p.record.MarkLost()
			return
		}
	}
	if p.record.Owned() == nil {
		p.restoreLogs(lost)
	}
}

// anyLost reports whether the engine may still be missing something of a session.
func (n *node) anyLost() bool {
	return slices.ContainsFunc(n.possessions(), func(p possession) bool { return p.record.IsLost() })
}
