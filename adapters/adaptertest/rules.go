package adaptertest

import (
	"net/http"
	"testing"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/adapters/internal/pair"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// rule is the test of one promise of an adapter.
type rule struct {
	name string
	kind
	test func(e *exam)
}

// kind is what a rule needs.
type kind uint8

const (
	always kind = iota
	lending
	acrossProcesses
)

func (r rule) skip(s Subject) string {
	if r.kind == lending && s.Lend == nil {
		return "Subject.Lend is nil: the adapter has no middleware that passes the server on"
	}
	return ""
}

var rules = []rule{
	{Paths, always, paths},
	{Refusals, always, refusals},
	{Answers, always, answers},
	{Polling, always, polling},
	{Own, always, ownValues},
	{OwnAtOnce, always, ownValuesAtOnce},
	{Tasks, always, ownTasks},
	{TasksMany, always, ownTasksAtOnce},
	{TasksWrap, always, tasksBehind},
	{Unset, always, unsetValues},
	{Late, always, lateMessages},
	{Panics, always, panics},
	{Flush, always, flush},
	{Buffered, always, buffered},
	{TimeOuts, always, timeOuts},
	{Outer, always, outerValues},
	{Modern, always, modern},
	{Lends, lending, lends},
	{LendsAlone, lending, lendsAlone},

	{PathsAcross, acrossProcesses, paths},
	{RefusalsAcross, acrossProcesses, refusals},
	{AnswersAcross, acrossProcesses, answers},
	{PollingAcross, acrossProcesses, polling},
	{OwnAcross, acrossProcesses, ownValues},
	{OwnAtOnceAcross, acrossProcesses, ownValuesAtOnce},
	{UnsetAcross, acrossProcesses, unsetValues},
	{LateAcross, acrossProcesses, lateMessages},
	{PanicsAcross, acrossProcesses, panics},
	{FlushAcross, acrossProcesses, flush},
	{BufferedAcross, acrossProcesses, buffered},
	{TimeOutsAcross, acrossProcesses, timeOuts},
	{OuterAcross, acrossProcesses, outerValues},
	{HeadAcross, acrossProcesses, heads},
}

// run runs the test.
func (r rule) run(e *exam) {
	if r.kind != acrossProcesses {
		r.test(e)
		return
	}
	e.across = true
	for _, e.ownerFirst = range []bool{false, true} { // so that each request of a rule goes both ways
		r.test(e)
	}
	for _, p := range e.pairs {
		if p.Forwarded() == 0 {
			e.Errorf("no request reached its session through another process: each router must serve the server that it was made for")
			return
		}
	}
}

// exam is one run of a rule, in a synctest bubble.
type exam struct {
	testing.TB
	Subject

	across     bool         // requests go to two servers of one cluster in turn
	ownerFirst bool         // as in pair.Pair
	pairs      []*pair.Pair // these servers
	handler    http.Handler // of the client that was started last
}

// start starts a client of a server, or of two.
func (e *exam) start(a rejoin.App, cfg rejointest.Config) *rejointest.Client {
	e.Helper()
	if e.across {
		var p *pair.Pair
		cfg, p = pair.Of(e, a, cfg)
		p.OwnerFirst = e.ownerFirst
		e.pairs = append(e.pairs, p)
	}
	mount := cfg.Handler
	cfg.Handler = func(s *rejoin.Server) http.Handler {
		e.handler = mount(s)
		return e.handler
	}
	return rejointest.New(e, a, cfg)
}

// servers are those of the client that was started last.
func (e *exam) servers(c *rejointest.Client) []*rejoin.Server {
	if e.across {
		return e.pairs[len(e.pairs)-1].Servers[:]
	}
	return []*rejoin.Server{c.Server()}
}
