package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// The official Go client closes its session if a ping is refused. A ping is answered also while calls fill MaxConcurrent.
func TestGoSDKKeepsAliveBesideCalls(t *testing.T) {
	const most = 4
	running, release := make(chan struct{}, most), make(chan struct{})
	s := connect(t, rejoin.Config{MaxConcurrent: most}, tools{
		"hold": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			running <- struct{}{}
			<-release
			return "done", nil
		},
	}, &mcp.ClientOptions{KeepAlive: 40 * soon}, nil) // it waits half of that for an answer
	var calls sync.WaitGroup
	texts, errs := make([]string, most), make([]error, most)
	for i := range most {
		calls.Go(func() { texts[i], errs[i] = s.callAs(s.ctx, "hold", fmt.Sprint(i), nil) })
		receive(t, running, "a running call")
	}
	before := len(s.wire.all(func(e *exchange) bool { return e.calls("ping") }))
	s.wire.wait(t, before+5, "pings", func(e *exchange) bool { return e.calls("ping") && e.status != 0 })
	close(release)
	calls.Wait()
	for i := range most {
		require.NoError(t, errs[i])
		require.Equal(t, "done", texts[i])
	}
	for _, ping := range s.wire.all(func(e *exchange) bool { return e.calls("ping") && e.status != 0 }) {
		require.Equal(t, http.StatusOK, ping.status)
	}
}

// Pings reach the servers behind both bridges and are answered, also while as many calls run as are allowed.
func TestBridgesAnswerPingsBesideCalls(t *testing.T) {
	for name, app := range bridges {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				c := rejointest.New(t, app(tools{
					"hold": func(context.Context, hand, json.RawMessage) (string, error) { <-release; return "done", nil },
				}), rejointest.Config{})
				var calls []*rejointest.Call
				for range 64 {
					calls = append(calls, c.CallTool("hold", nil))
				}
				for range 10 {
					require.JSONEq(t, `{}`, string(c.Start("ping", nil).Result()))
				}
				require.Contains(t, c.CallTool("hold", nil).Err().Message, "MaxConcurrent")
				close(release)
				for _, call := range calls {
					require.Contains(t, string(call.Result()), "done")
				}
			})
		})
	}
}
