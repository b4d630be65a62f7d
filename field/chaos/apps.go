//go:build unix

package main

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
)

// appNames are the kinds of apps, which are also the paths and the names of their clusters.
var appNames = []string{"own", "gosdk", "mcpgo"}

// newApp makes an app with the tool.
func (o *oracle) newApp(kind string) rejoin.App {
	switch kind {
	case "gosdk":
		return gosdk.New(o.goSDKServer())
	case "mcpgo":
		return mcpgo.New(o.mcpGoServer())
	}
	return rejoin.NewApp(rejoin.Info{Name: "chaos", Version: "1", Capabilities: map[string]any{"tools": struct{}{}, "logging": struct{}{}}}, o.own)
}

func (o *oracle) own(ctx context.Context, r *rejoin.Request) (any, error) {
	if r.Method != "tools/call" {
		return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "no such method: %s", r.Method)
	}
	var w work
	if err := r.BindArguments(&w); err != nil {
		return nil, err
	}
	h := rejoin.HandleFromContext(ctx)
	text, err := o.perform(ctx, h.Session().ID(), &w, ownOutlet{h})
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}, err
}

type ownOutlet struct{ h *rejoin.Handle }

func (v ownOutlet) progress(n int, text string) error { return v.h.Progress(float64(n+1), 0, text) }

func (v ownOutlet) aside(text string) error {
	params, err := json.Marshal(map[string]any{"level": "info", "logger": "aside", "data": text})
	if err != nil {
		return err
	}
	return v.h.Session().Notify(context.Background(), "notifications/message", params)
}

func (o *oracle) goSDKServer() *official.Server {
	s := official.NewServer(&official.Implementation{Name: "chaos", Version: "1"}, nil)
	official.AddTool(s, &official.Tool{Name: "work"},
		func(ctx context.Context, r *official.CallToolRequest, w work) (*official.CallToolResult, any, error) {
			text, err := o.perform(ctx, rejoin.HandleFromContext(ctx).Session().ID(), &w, goSDKOutlet{ctx, r})
			if err != nil {
				return nil, nil, err
			}
			return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: text}}}, nil, nil
		})
	return s
}

type goSDKOutlet struct {
	ctx context.Context
	r   *official.CallToolRequest
}

func (v goSDKOutlet) progress(n int, text string) error {
	return v.r.Session.NotifyProgress(v.ctx, &official.ProgressNotificationParams{
		ProgressToken: v.r.Params.GetProgressToken(), Progress: float64(n + 1), Message: text,
	})
}

func (v goSDKOutlet) aside(text string) error {
	return ownOutlet{rejoin.HandleFromContext(v.ctx)}.aside(text)
}

func (o *oracle) mcpGoServer() *server.MCPServer {
	s := server.NewMCPServer("chaos", "1", server.WithToolCapabilities(true), server.WithLogging())
	s.AddTool(mcp.NewTool("work"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var w work
		if err := r.BindArguments(&w); err != nil {
			return nil, err
		}
		text, err := o.perform(ctx, rejoin.HandleFromContext(ctx).Session().ID(), &w, mcpGoOutlet{ctx, s, r})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(text), nil
	})
	return s
}

type mcpGoOutlet struct {
	ctx context.Context
	s   *server.MCPServer
	r   mcp.CallToolRequest
}

func (v mcpGoOutlet) progress(n int, text string) error {
	return v.s.SendNotificationToClient(v.ctx, "notifications/progress", map[string]any{
		"progressToken": v.r.Params.Meta.ProgressToken, "progress": n + 1, "message": text,
	})
}

func (v mcpGoOutlet) aside(text string) error {
	return ownOutlet{rejoin.HandleFromContext(v.ctx)}.aside(text)
}
