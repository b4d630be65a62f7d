package torture_test

import (
	"context"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// drains are what may happen while the first process, which owns the sessions, begins to drain. Its tools have ended before its grace has.
var drains = map[string]meeting{
	"drain":                       {all: one(leaves), chatty: true},
	"drain, calls":                {each: []func(*torture, *client){quick, quick}, all: one(leaves)},
	"drain, requests elsewhere":   {each: []func(*torture, *client){adoption, adoption}, all: one(leaves)},
	"drain, DELETE":               {each: one(deletion), all: one(leaves), chatty: true},
	"drain, cancellation":         {each: one(cancellation), all: one(leaves)},
	"drain, EndSession":           {each: one(termination), all: one(leaves)},
	"drain, drain":                {each: one(adoption), all: []func(*torture, *client){leaves, leaves}},
	"drain, drain of another":     {each: one(adoption), all: []func(*torture, *client){leaves, leavesToo}},
	"drain, another process":      {each: one(quick), all: []func(*torture, *client){leaves, arrival}},
	"drain, Close":                {each: one(adoption), all: []func(*torture, *client){leaves, closes}},
	"drain, DELETE, Close":        {each: one(deletion), all: []func(*torture, *client){leaves, closes}},
	"drain, grace is over":        {each: one(quick), all: one(leavesSoon), chatty: true},
	"drain, outage":               {each: one(quick), all: []func(*torture, *client){leaves, outage}, away: true},
	"drain, DELETE, outage":       {each: one(deletion), all: []func(*torture, *client){leaves, outage}, away: true},
	"drain, loss":                 {all: []func(*torture, *client){leaves, loss}, away: true},
	"drain, loss, calls":          {each: one(quick), all: []func(*torture, *client){leaves, loss}, away: true},
	"drain, death of the heir":    {each: one(adoption), all: []func(*torture, *client){leaves, deathOfTheHeir}},
	"drain, death of the drained": {each: one(adoption), all: []func(*torture, *client){leaves, death}},
}

// slot is one of the processes.
func (tt *torture) slot(n int) *machine {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return tt.slots[n]
}

// leaves drains the first process, for longer than its calls take.
func leaves(tt *torture, _ *client) { tt.leaves(tt.slot(0), 10*time.Minute) }

// leavesSoon drains the first process for a time in which some of its calls end.
func leavesSoon(tt *torture, _ *client) {
	p := tt.slot(0)
	time.AfterFunc(5*time.Second-1, func() { tt.willClose(p) })
	tt.leaves(p, 5*time.Second)
}

func leavesToo(tt *torture, _ *client) { tt.leaves(tt.slot(1), 10*time.Minute) }

func (tt *torture) leaves(p *machine, limit time.Duration) {
	tt.say("%s drains", p.name)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		tt.say("%s has drained: %v", p.name, p.Drain(ctx))
	}()
}

// willClose notes that a process is about to be closed.
func (tt *torture) willClose(p *machine) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	p.closing = true
}

func closes(tt *torture, _ *client) {
	p := tt.slot(0)
	tt.willClose(p)
	tt.say("%s is closed", p.name)
	p.Close()
}

// termination ends a session as an operator does.
func termination(tt *torture, c *client) {
	t := tt.taleOf(c.key)
	tt.mu.Lock()
	t.deleted = true
	var ref rejoin.SessionRef
	for r, key := range tt.refs {
		if key == c.key {
			ref = r
		}
	}
	p := tt.slots[0]
	tt.mu.Unlock()
	tt.say("%s: EndSession: %v", c.name, p.EndSession(ref))
}

// arrival starts another process.
func arrival(tt *torture, _ *client) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.slots = append(tt.slots, tt.start("http://3"))
}

func deathOfTheHeir(tt *torture, _ *client) {
	old := tt.slot(1)
	tt.kill(old)
	tt.replace(old, time.Duration(tt.seed%2)*3*lease)
}

// The owner of sessions begins to drain, and at the same moment something else happens: each event is read once, no call is lost without a reason, no
// session has two owners, and nothing is left.
func TestCrossingsOfADrain(t *testing.T) { meet(t, drains) }
