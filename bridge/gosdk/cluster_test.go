package gosdk

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// A session of servers of the SDK goes on in another process when its own is lost, and when that is shut down, with the level of its log.
func TestProcessesWithServersOfTheSDK(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := rejointest.NewCluster(t, func() rejoin.App {
			return New(newServer(nil, map[string]handler{"export": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "exporting"}); err != nil {
					return nil, err
				}
				select {
				case <-time.After(time.Minute):
					return text("exported"), nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}}))
		}, rejointest.Config{})
		c := cluster.NewClient()
		c.Start("logging/setLevel", map[string]string{"level": "info"}).Result()
		first := c.Owner()

		call := c.CallTool("export", nil)
		call.WaitMessages(1)
		first.Kill()
		if e := call.Err(); e.Reason() != rejoin.ReasonOwnerLost {
			t.Errorf("after a kill: %v", e)
		}

		call = c.CallTool("export", nil)
		call.WaitMessages(1)
		second := c.Owner()
		if second == first {
			t.Error("a killed process owns the session")
		}
		second.Shutdown(2 * time.Minute)
		call.Result()
		expect(t, "a call during a deploy", call.Messages(), "message exporting", "result exported")
		if err := second.Wait(); err != nil {
			t.Error(err)
		}
	})
}
