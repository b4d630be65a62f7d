package cluster_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// crossing is a server whose sessions end in many ways at once, while its engine comes and goes.
type crossing struct {
	*rejoin.Server
	link   *clustertest.Faulty
	engine *cluster.Memory
	calls  chan *rejoin.Call
}

func newCrossing(t *testing.T) *crossing {
	t.Helper()
	c := &crossing{engine: cluster.NewMemory(eventstore.MemoryConfig{}), calls: make(chan *rejoin.Call, 1000)}
	c.link = clustertest.NewFaulty(c.engine, c.engine, nil)
	app := &kit.Fake{OnRequest: func(call *rejoin.Call) {
		if call.Method() == "initialize" {
			_ = call.Handle().Session().SaveState([]byte("s"))
			kit.Accept(call)
			return
		}
		c.calls <- call
	}}
	c.Server = kit.NewServer(t, app, rejoin.Config{
		Store: c.link, StoreTimeout: time.Second, KeepAlive: -1, Logger: kit.QuietLogger(), Policy: rejoin.Policy{StreamAfter: time.Millisecond},
		Cluster: &rejoin.Cluster{Name: "test", Self: "http://a", Transport: kit.NoNetwork, Lease: lease, Outage: 3 * time.Second},
	})
	synctest.Wait()
	return c
}

// Everything that ends something crosses everything that the engine does: a round has one way in which the engine fails and, at once, sessions
// whose calls report, answer, are cancelled, and are deleted. Nothing is left afterwards, in the process or in the engine.
func TestEndsCrossOutages(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := newCrossing(t)
		resting := len(kit.Goroutines())
		for round := range 60 {
			const n = 6
			var ids []string
			var responses []*kit.Response
			var calls []*rejoin.Call
			for i := range n {
				id := kit.OpenReady(t, c.Server)
				ids = append(ids, id)
				responses = append(responses, kit.Serve(c.Server, kit.InSession(t, id, kit.CallBody(fmt.Sprint(i+1), `{"_meta":{"progressToken":1}}`))))
				calls = append(calls, <-c.calls)
			}
			elapse(5 * time.Millisecond)
			var wait sync.WaitGroup
			at := func(what int, f func()) {
				wait.Go(func() {
					kit.Elapse(time.Duration((round*7+what*13)%5) * time.Millisecond) // in another order each time
					f()
				})
			}
			at(0, func() {
				switch round % 4 {
				case 0:
					c.link.SetLink(clustertest.Refused)
				case 1:
					c.link.SetLink(clustertest.Silent)
				case 2:
					c.link.SetLink(clustertest.Deaf)
				case 3:
					c.engine.Forget()
				}
			})
			for i := range n {
				call, id := calls[i], ids[i]
				at(i, func() {
					for k := range 3 {
						_ = call.Handle().Progress(float64(k+1), 0, "")
					}
				})
				at(i+1, func() { _ = call.Handle().Session().SaveState([]byte("t")) })
				at(i+round, func() {
					switch i {
					case 0:
						_ = call.Reply(nil)
					case 1:
						kit.DeleteNow(t, c.Server, id)
					case 2:
						call.Handle().Session().End(nil)
					case 3:
						kit.ServeNow(c.Server, kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`))
					case 4:
						_ = call.Handle().CloseStream(0) // perhaps it cannot be
						_ = call.Reply(nil)
					case 5:
						_ = call.Fail(nil)
					}
				})
			}
			wait.Wait()
			elapse(time.Duration(round%3) * 3 * time.Second) // shorter than Outage, and longer
			c.link.SetLink(clustertest.Up)
			elapse(2 * lease)
			for i := range n {
				require.NotContains(t, responses[i].Summary(), "open", "round %d, call %d", round, i)
				require.Error(t, calls[i].Context().Err(), "its tool knows")
			}
			for s := range c.Sessions() {
				require.NoError(t, c.EndSession(s.Ref))
			}
			elapse(lease)
			kit.RequireRested(t, resting)
			kept, _ := c.engine.Usage()
			require.Zero(t, kept, "round %d", round)
		}
	})
}
