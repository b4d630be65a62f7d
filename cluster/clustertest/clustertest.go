package clustertest

import (
	"context"
	"hash/crc32"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Features say what an engine can be asked.
type Features struct {
	// VirtualTime says that the engine measures time with package time, and runs inside a synctest bubble: it uses no network. Then
	// the exam also tests what expires and when. open is called inside the bubble for those rules.
	VirtualTime bool
}

// Engine is a directory and the store of its logs, both empty, as open returns them. Run closes the store.
type Engine struct {
	Directory cluster.Directory
	Store     eventstore.Store
	// Forget makes the engine lose everything, as a restart without persistence does, and become young. It returns when the engine
	// answers again. Directory and Store stay in use.
	Forget func()
	// Another returns a directory and a store of the same engine as another process has them, with a connection and a memory of
	// their own. Nil: the exam uses Directory and Store for all processes. Run closes the store.
	Another func(t testing.TB) (cluster.Directory, eventstore.Store)
}

// patience is the deadline of a rule. Only a broken engine reaches it.
const patience = 30 * time.Second

// Run runs the exam. open returns an empty engine. Run opens one for each rule.
func Run(t *testing.T, f Features, open func(t testing.TB) Engine) {
	t.Helper()
	for _, r := range rules {
		if why := r.skip(f); why != "" {
			t.Logf("not asked: %q: %s", r.name, why)
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			if r.needs == virtualTime {
				synctest.Test(t, func(t *testing.T) { r.try(t, open) })
				return
			}
			r.try(t, open)
		})
	}
}

// rule is the test of one clause of the contract.
type rule struct {
	name  string
	needs needs
	test  func(e *exam)
}

type needs uint8

const (
	nothing needs = iota
	virtualTime
)

var rules = []rule{
	{"join", nothing, join},
	{"join supersedes", nothing, joinSupersedes},
	{"joins at once", nothing, joinsAtOnce},
	{"renew", nothing, renew},
	{"renew after a loss", nothing, renewAfterLoss},
	{"late joins", nothing, lateJoins},
	{"leave", nothing, leave},
	{"clusters apart", nothing, clustersApart},
	{"entries outlive leases", virtualTime, entriesOutliveLeases},

	{"put and find", nothing, putAndFind},
	{"put again", nothing, putAgain},
	{"put under another fence", nothing, putUnderAnotherFence},
	{"puts at once", nothing, putsAtOnce},
	{"find counts", nothing, findCounts},
	{"save", nothing, save},
	{"late states", nothing, lateStates},
	{"saves at once", nothing, savesAtOnce},
	{"large records", nothing, largeRecords},
	{"large batches", nothing, largeBatches},
	{"any name", nothing, anyName},
	{"bytes stay as they were", nothing, bytesStay},
	{"unknown sessions", nothing, unknownSessions},
	{"records expire", virtualTime, recordsExpire},
	{"touch", virtualTime, touch},

	{"adopt", nothing, adopt},
	{"adopt needs the fence", nothing, adoptNeedsFence},
	{"adopters at once", nothing, adoptersAtOnce},
	{"adopt again", nothing, adoptAgain},
	{"adopted streams", nothing, adoptedStreams},
	{"streams of restored logs", nothing, streamsOfRestoredLogs},
	{"fences of logs", nothing, fencesOfLogs},
	{"fences of records", nothing, fencesOfRecords},
	{"the former owner", nothing, formerOwner},
	{"adopt beside appends", nothing, adoptBesideAppends},
	{"release", nothing, release},
	{"release beside an adoption", nothing, releaseBesideAdoption},

	{"end", nothing, end},
	{"end of an unknown session", nothing, endOfUnknown},
	{"end beside appends", nothing, endBesideAppends},
	{"end beside an adoption", nothing, endBesideAdoption},
	{"tombstones expire", virtualTime, tombstonesExpire},

	{"age", nothing, age},
	{"age grows", virtualTime, ageGrows},
	{"find beside a loss", nothing, findBesideLoss},
	{"the engine went back", nothing, wentBack},
	{"owners after a loss", nothing, ownersAfterLoss},
	{"repeats", nothing, repeats},
	{"ended context", nothing, endedContext},
	{"close", nothing, closed},
}

func (r rule) skip(f Features) string {
	if r.needs == virtualTime && !f.VirtualTime {
		return "Features.VirtualTime is not set: the engine has a clock of its own"
	}
	return ""
}

func (r rule) try(t testing.TB, open func(t testing.TB) Engine) {
	ctx := context.Background()
	if r.needs != virtualTime {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	engine := open(t)
	e := &exam{TB: t, ctx: ctx, forget: engine.Forget, one: client{engine.Directory, engine.Store}}
	e.two = e.one
	if engine.Another != nil {
		e.another = true
		e.two.Directory, e.two.Store = engine.Another(t)
		defer e.close(e.two)
	}
	defer e.close(e.one)
	r.test(e)
}

// exam is one run of a rule.
type exam struct {
	testing.TB
	ctx      context.Context
	one, two client // of the same engine, as two processes have them
	another  bool   // two is not one
	forget   func()
	joined   uint64 // the last generation that join has proposed
}

// client is what one process has of the engine.
type client struct {
	cluster.Directory
	eventstore.Store
}

func (e *exam) close(c client) {
	if err := c.Close(); err != nil {
		e.Errorf("Close: %v", err)
	}
}

const (
	lease = 10 * time.Second
	ttl   = time.Hour
)

// process returns a run of the process that others reach at self.
func process(self, incarnation string) cluster.Process {
	return cluster.Process{Cluster: "c", Incarnation: incarnation, Self: "http://" + self}
}

// as returns the process as a member whose generation depends on its incarnation.
func as(p cluster.Process) cluster.Member {
	return cluster.Member{Process: p, Generation: 1 + uint64(crc32.ChecksumIEEE([]byte(p.Incarnation)))}
}

func fence(incarnation string, epoch uint64) eventstore.Fence {
	return eventstore.Fence{Incarnation: incarnation, Epoch: epoch}
}

// owner is a process that owns, or owned, a session.
type owner struct {
	client
	process cluster.Process
	session string
	fence   eventstore.Fence
}

// log returns a handle in the owner's name.
func (o owner) log(stream string) eventstore.Log {
	return o.Log(eventstore.Key{Session: o.session, Stream: stream, Fence: o.fence, About: "about " + stream})
}

// under returns the same owner with another fence.
func (o owner) under(f eventstore.Fence) owner {
	o.fence = f
	return o
}

// record is the record that an owner puts.
func (o owner) record() *cluster.Record {
	return &cluster.Record{
		Session: o.session, Fence: o.fence, Self: o.process.Self, Generation: as(o.process).Generation, Format: 3, About: []byte("about " + o.session),
		State: []byte("state of " + o.session), Version: 1,
	}
}

// begin makes a session whose first owner is the process a, through the first client.
func (e *exam) begin(session string) owner {
	e.Helper()
	o := owner{e.one, process("a", "a1"), session, fence("a1", 1)}
	e.nilError(o.Put(e.ctx, o.record(), ttl), "put a new record")
	return o
}

// adopt lets the process b adopt the session of o, through the second client.
func (e *exam) adopt(o owner) owner {
	e.Helper()
	b := owner{e.two, process("b", "b1"), o.session, fence("b1", o.fence.Epoch+1)}
	_, _, err := b.Adopt(e.ctx, o.session, o.fence, as(b.process), ttl)
	e.nilError(err, "adopt")
	return b
}
