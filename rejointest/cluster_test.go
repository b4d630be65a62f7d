package rejointest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// fleet has apps whose tools send progress at once and return after a while. It knows in which of the apps they ran, and why their contexts ended.
type fleet struct {
	mu     sync.Mutex
	apps   int
	ran    []int
	causes []error
}

const takes = time.Minute

func (f *fleet) app() rejoin.App {
	f.mu.Lock()
	n := f.apps
	f.apps++
	f.mu.Unlock()
	return tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
		f.mu.Lock()
		f.ran = append(f.ran, n)
		f.mu.Unlock()
		_ = h.Progress(1, 2, "")
		select {
		case <-time.After(takes):
			return n, nil
		case <-ctx.Done():
			f.mu.Lock()
			defer f.mu.Unlock()
			f.causes = append(f.causes, context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
	})
}

func TestRequestsGoToEachProcessInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		servers := map[*rejoin.Server]int{}
		c := rejointest.NewCluster(t, new(fleet).app, rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
			servers[s] = len(servers)
			h := stdadapter.New(s)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.RemoteAddr[:10] == "192.0.2.2:" { // not from another process
					seen = append(seen, fmt.Sprint(servers[s], " ", r.Method))
				}
				h.ServeHTTP(w, r)
			})
		}})
		client := c.NewClient()
		call := client.CallTool("x", nil)
		call.WaitMessages(1)
		call.Cut()
		call.Poll()
		require.JSONEq(t, "0", string(call.Result()))
		require.Equal(t, []string{"0 POST", "1 POST", "2 POST", "0 GET"}, seen)
		first := c.Processes()[0]
		require.Same(t, first, client.Owner())
		require.Same(t, first.Server, client.Server())
		require.EqualValues(t, 2, first.Stats().Received)
		require.Len(t, c.Processes(), 3)

		seen = nil
		c.Spray(c.Processes()[2], first)
		client.Start("ping", nil).Result()
		client.Start("ping", nil).Result()
		c.Spray()
		for range 3 {
			client.Start("ping", nil).Result()
		}
		require.Equal(t, []string{"2 POST", "0 POST", "0 POST", "1 POST", "2 POST"}, seen)
	})
}

// The client of a call whose owner is killed gets an error in time, wherever it is connected, and the session goes on elsewhere.
func TestKillTheOwner(t *testing.T) {
	for connected := range 3 {
		synctest.Test(t, func(t *testing.T) {
			f := &fleet{}
			c := rejointest.NewCluster(t, f.app, rejointest.Config{})
			client := c.NewClient()
			c.Spray(c.Processes()[connected])
			call := client.CallTool("x", nil)
			call.WaitMessages(1)
			c.Spray()
			began := time.Now()
			client.Owner().Kill()
			require.Len(t, f.causes, 1)
			require.ErrorIs(t, f.causes[0], rejoin.ErrShutdown)
			require.Equal(t, rejoin.ReasonOwnerLost, call.Err().Reason())
			require.Less(t, time.Since(began), 30*time.Second)
			require.Len(t, call.Messages(), 2, "progress, and the error")

			require.NotSame(t, c.Processes()[0], client.Owner())
			var n int
			require.NoError(t, json.Unmarshal(client.CallTool("x", nil).Result(), &n))
			require.Same(t, c.Processes()[n], client.Owner())
			require.Equal(t, []int{0, n}, f.ran)
		})
	}
}

// What a killed process has not sent yet is not sent any more, not even an error.
func TestAKilledProcessAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.NewCluster(t, func() rejoin.App {
			return tool(func(ctx context.Context, _ *rejoin.Handle) (any, error) {
				<-ctx.Done()
				return "too late", nil
			})
		}, rejointest.Config{Processes: 1})
		client := c.NewClient()
		call := client.CallTool("x", nil)
		listen := client.Listen()
		received := listen.Wire()
		client.Owner().Kill()
		require.Zero(t, call.Open()+listen.Open())
		require.Empty(t, call.Wire())
		require.Equal(t, received, listen.Wire())
		require.Contains(t, call.String(), "connection reset by peer")
		require.Contains(t, listen.String(), "connection reset by peer")
	})
}

// A result that was recorded outlives the process that has recorded it.
func TestAResultOutlivesItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.NewCluster(t, new(fleet).app, rejointest.Config{})
		client := c.NewClient()
		call := client.CallTool("x", nil)
		call.WaitMessages(1)
		call.Cut()
		elapse(takes + time.Second)
		client.Owner().Kill()
		require.JSONEq(t, "0", string(call.Result()))
		require.NotSame(t, c.Processes()[0], client.Owner())
	})
}

// A process that only passes a stream on can be killed: the client comes back through another one.
func TestKillAProcessBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		c := rejointest.NewCluster(t, f.app, rejointest.Config{})
		client := c.NewClient()
		between := c.Processes()[1]
		c.Spray(between)
		call := client.CallTool("x", nil)
		call.WaitMessages(1)
		c.Spray()
		between.Kill()
		between.Kill()
		require.Zero(t, call.Open())
		require.Contains(t, call.String(), "broken")
		require.JSONEq(t, "0", string(call.Result()))
		require.Same(t, c.Processes()[0], client.Owner())
		require.Equal(t, []int{0}, f.ran)
	})
}

// Another process with the same Self takes over at once; one with its own does so after a lease.
func TestAnotherProcessInPlaceOfTheOwner(t *testing.T) {
	for restart, wait := range map[bool][2]time.Duration{true: {0, 2 * time.Second}, false: {5 * time.Second, 30 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			c := rejointest.NewCluster(t, new(fleet).app, rejointest.Config{Processes: 1})
			client := c.NewClient()
			call := client.CallTool("x", nil)
			call.WaitMessages(1)
			owner := client.Owner()
			owner.Kill()
			began := time.Now()
			var next *rejointest.Process
			if restart {
				next = c.Restart(owner)
				require.Equal(t, owner.Self(), next.Self())
			} else {
				next = c.Start()
				require.NotEqual(t, owner.Self(), next.Self())
			}
			require.Equal(t, rejoin.ReasonOwnerLost, call.Err().Reason())
			took := time.Since(began)
			require.True(t, wait[0] <= took && took <= wait[1], "restarted: %v, took %v", restart, took)
			require.Same(t, next, client.Owner())
		})
	}
}

// A deploy: the owner drains while its call runs, and another process serves what comes after that.
func TestShutDownTheOwner(t *testing.T) {
	for connected := range 2 {
		synctest.Test(t, func(t *testing.T) {
			f := &fleet{}
			c := rejointest.NewCluster(t, f.app, rejointest.Config{Processes: 2})
			client := c.NewClient()
			c.Spray(c.Processes()[connected])
			call := client.CallTool("x", nil)
			call.WaitMessages(1)
			c.Spray()
			owner := client.Owner()
			next := c.Start()
			began := time.Now()
			owner.Shutdown(2 * takes)
			require.True(t, owner.Draining())
			require.NoError(t, owner.Wait())
			require.Equal(t, takes+time.Second, time.Since(began), "it waits for the tool, and serves a second more")
			require.JSONEq(t, "0", string(call.Result()))
			require.Empty(t, f.causes)
			require.NotSame(t, owner, client.Owner())
			c.Spray(next)
			client.CallTool("x", nil).Result()
			again := c.Restart(owner)
			require.Len(t, c.Processes(), 4)
			c.Spray(again)
			client.CallTool("x", nil).Result()
			require.EqualValues(t, 1, again.Stats().Forwarded)
		})
	}
}

// What does not end within the grace ends with an error that says so.
func TestAGraceThatIsTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		c := rejointest.NewCluster(t, f.app, rejointest.Config{})
		client := c.NewClient()
		call := client.CallTool("x", nil)
		owner := client.Owner()
		owner.Shutdown(time.Second)
		var left *rejoin.DrainError
		require.ErrorAs(t, owner.Wait(), &left)
		require.Equal(t, 1, left.Running)
		require.Equal(t, rejoin.ReasonShutdown, call.Err().Reason())
		require.Len(t, f.causes, 1)
	})
}

// An idle process takes requests for 5 s more, as balancers do not know yet. None is refused, then or later.
func TestAnIdleProcessThatIsShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.NewCluster(t, new(fleet).app, rejointest.Config{})
		client := c.NewClient()
		owner := client.Owner()
		began := time.Now()
		owner.Shutdown(time.Hour)
		c.Spray(owner)
		for time.Since(began) < 5*time.Second {
			client.Start("ping", nil).Result()
			elapse(time.Second / 7)
		}
		c.Spray()
		for time.Since(began) < 10*time.Second {
			client.Start("ping", nil).Result()
			elapse(time.Second / 7)
		}
		require.NoError(t, owner.Wait())
		require.NotSame(t, owner, client.Owner())
	})
}

// Deploys under load: no request is refused, and no call is lost.
func TestRollingDeploys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		c := rejointest.NewCluster(t, f.app, rejointest.Config{})
		var clients []*rejointest.Client
		for range 4 {
			clients = append(clients, c.NewClient())
		}
		for n, old := range c.Processes() {
			var calls []*rejointest.Call
			for _, client := range clients {
				calls = append(calls, client.CallTool("x", nil))
			}
			c.Start()
			began := time.Now()
			old.Shutdown(2 * takes)
			for time.Since(began) < takes+takes/2 {
				for _, client := range clients {
					client.Start("ping", nil).Result()
					client.Notify("notifications/x", nil)
				}
				elapse(time.Second)
			}
			require.NoError(t, old.Wait())
			for _, call := range calls {
				call.Result()
			}
			for _, client := range clients {
				require.NotContains(t, c.Processes()[:n+1], client.Owner())
			}
		}
		require.Empty(t, f.causes)
	})
}

func TestAProcessThatIsKilledWhileItShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.NewCluster(t, new(fleet).app, rejointest.Config{})
		client := c.NewClient()
		call := client.CallTool("x", nil)
		call.WaitMessages(1)
		owner := client.Owner()
		owner.Shutdown(time.Hour)
		began := time.Now()
		owner.Kill()
		require.EqualError(t, owner.Wait(), "rejointest: process 0 (http://198.51.100.1:8080) was killed while it shut down")
		require.Equal(t, began, time.Now())
		require.Equal(t, rejoin.ReasonOwnerLost, call.Err().Reason())
	})
}

// Each client has a session of its own, and both go on when a process ends.
func TestSeveralClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.NewCluster(t, new(fleet).app, rejointest.Config{})
		var clients []*rejointest.Client
		var calls []*rejointest.Call
		for n, p := range c.Processes() {
			c.Spray(p)
			clients = append(clients, c.NewClient())
			calls = append(calls, clients[n].CallTool("x", nil))
			require.Same(t, p, clients[n].Owner())
		}
		c.Spray()
		c.Processes()[1].Kill()
		require.JSONEq(t, "0", string(calls[0].Result()))
		require.Equal(t, rejoin.ReasonOwnerLost, calls[1].Err().Reason())
		require.JSONEq(t, "2", string(calls[2].Result()))
		require.NotSame(t, c.Processes()[1], clients[1].Owner())
	})
}
