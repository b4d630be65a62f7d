package gosdk

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// A client floods a handler that is stuck: what has room is handled in the end, and the session goes on.
func TestNotificationsBeyondTheLimitAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		var handled atomic.Int64
		s := newServer(&mcp.ServerOptions{RootsListChangedHandler: func(context.Context, *mcp.RootsListChangedRequest) {
			handled.Add(1)
			<-release
		}}, map[string]handler{"x": quick})
		var logged journal
		c := rejointest.New(t, New(s), rejointest.Config{Server: rejoin.Config{Logger: logged.logger()}})
		const changed = "notifications/roots/list_changed"
		for range fenceNotes - 1 { // with initialized, one fence
			c.Notify(changed, nil)
		}
		for range maxNotes - fenceNotes + 50 {
			c.Notify(changed, nil)
		}
		call := c.CallTool("x", nil)
		expect(t, "a call behind them", call.Messages())
		close(release)
		call.Result()
		if got, want := handled.Load(), int64(maxNotes-1); got != want { // initialized is one too
			t.Errorf("%d were handled, want %d", got, want)
		}
		if n := logged.count("are dropped"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}
		for range 3 * maxNotes { // one at a time there is always room
			c.Notify(changed, nil)
		}
		synctest.Wait()
		if got, want := handled.Load(), int64(4*maxNotes-1); got != want {
			t.Errorf("%d were handled later, want %d", got-maxNotes+1, want-maxNotes+1)
		}
	})
}

// Any sizes and any order of fences: never much beyond the limits, and nothing is refused for ever.
func TestBacklog(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var b backlog
		set := false
		for range 5000 {
			if set && r.IntN(400) == 0 {
				b.handled()
				set = b.due()
				continue
			}
			size := r.IntN(1 << r.IntN(23))
			bytes := b.fenced.bytes + b.open.bytes
			ok, _ := b.admit(size)
			if !ok && !set {
				t.Fatalf("refused with nothing on its way: %+v", b)
			}
			if ok && bytes >= maxNoteBytes || b.fenced.count+b.open.count > maxNotes {
				t.Fatalf("too much: %+v", b)
			}
			if ok && b.due() {
				set = true
			}
		}
	}
}

// Calls that are cancelled while their tools do not care.
func TestCancelledCallsThatRunOnAreLimited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newServer(nil, map[string]handler{"x": quick, "stubborn": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-release
			return text("x"), nil
		}})
		c := rejointest.New(t, New(s), rejointest.Config{})
		for range maxStale {
			c.CallTool("stubborn", nil).Cancel("enough")
		}
		if err := c.CallTool("x", nil).Err(); err.Code != rejoin.CodeInternal || !strings.Contains(err.Message, "still running") {
			t.Error(err)
		}
		close(release)
		synctest.Wait()
		c.CallTool("x", nil).Result()
	})
}
