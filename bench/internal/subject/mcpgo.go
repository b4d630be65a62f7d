package subject

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	mcpgobridge "github.com/rejoin-mcp/rejoin/bridge/mcpgo"
)

// newMCPGo serves a server of mcp-go with mcp-go's own transport. speaks: echo sends a notification first.
func newMCPGo(speaks, stores, stateful bool) func(Options) (http.Handler, error) {
	return func(o Options) (http.Handler, error) {
		opts := []server.StreamableHTTPOption{server.WithStreamableHTTPLogger(discardLogger())}
		if stateful {
			opts = append(opts, server.WithStateful(true))
		} else {
			opts = append(opts, server.WithStateLess(true))
		}
		if stores {
			opts = append(opts, server.WithEventStore(server.NewInMemoryEventStore())) // it has no limit
		}
		mux := http.NewServeMux()
		mux.Handle(Path, server.NewStreamableHTTPServer(mcpGoServer(speaks, o), opts...))
		return mux, nil
	}
}

// mcpGoApp puts the same server behind rejoin.
func mcpGoApp(speaks bool) func(Options) rejoin.App {
	return func(o Options) rejoin.App { return mcpgobridge.New(mcpGoServer(speaks, o)) }
}

// mcpGoServer is the server. It does not check arguments against their schemas, as is mcp-go's default.
func mcpGoServer(speaks bool, o Options) *server.MCPServer {
	s := server.NewMCPServer(serverName, serverVersion, server.WithToolCapabilities(false))
	t := mcpGoTools{server: s, gate: o.Gate, speaks: speaks}
	add := func(name, about, schema string, tool server.ToolHandlerFunc) {
		s.AddTool(mcp.NewToolWithRawSchema(name, about, json.RawMessage(schema)), tool)
	}
	add(Echo, echoAbout, echoSchema, t.echo)
	add(Burst, burstAbout, burstSchema, t.burst)
	add(Hold, holdAbout, holdSchema, t.hold)
	return s
}

type mcpGoTools struct {
	server *server.MCPServer
	gate   *Gate
	speaks bool
}

func (t mcpGoTools) echo(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, err := req.RequireString("text")
	if err != nil {
		return nil, err
	}
	if t.speaks {
		if err := t.progress(ctx, req, 1, 1); err != nil {
			return nil, err
		}
	}
	return mcp.NewToolResultText(text), nil
}

func (t mcpGoTools) burst(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	n, err := req.RequireInt("n")
	if err != nil {
		return nil, err
	}
	if req.GetBool("close", false) {
		_ = closeStream(ctx)
	}
	for i := range n {
		if err := t.progress(ctx, req, i+1, n); err != nil {
			return nil, err
		}
	}
	return mcp.NewToolResultText(burstAnswer), nil
}

// blocked is the pause after a send that was refused. mcp-go's send does not wait for room in its queue of 100 notifications, and does not
// say when there is room. So a tool that must lose none has to try again. The pause is short enough that the queue does not become empty,
// and long enough that the tool does not take the CPU from the queue's reader.
const blocked = 100 * time.Microsecond

// progress sends a notification, and repeats it while mcp-go's queue is full.
func (t mcpGoTools) progress(ctx context.Context, req mcp.CallToolRequest, done, total int) error {
	if req.Params.Meta == nil {
		return nil
	}
	for {
		err := t.server.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), map[string]any{
			"progressToken": req.Params.Meta.ProgressToken, "progress": done, "total": total, "message": stepMessage,
		})
		if !errors.Is(err, server.ErrNotificationChannelBlocked) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		time.Sleep(blocked)
	}
}

// hold can close its stream only behind rejoin: mcp-go's own transport cannot.
func (t mcpGoTools) hold(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.GetBool("close", false) {
		_ = closeStream(ctx)
	}
	select {
	case <-t.gate.Done():
		return mcp.NewToolResultText(holdAnswer + req.GetString("text", "")), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
