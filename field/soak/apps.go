package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// ownApp is a handler without any SDK.
func ownApp() rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "soak", Version: "1", Capabilities: map[string]any{"tools": struct{}{}, "logging": struct{}{}}},
		func(ctx context.Context, r *rejoin.Request) (any, error) {
			if r.Method != "tools/call" {
				return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "no such method: %s", r.Method)
			}
			var p part
			if err := r.BindArguments(&p); err != nil {
				return nil, err
			}
			out, err := perform(ctx, &p, &ownVoice{rejoin.HandleFromContext(ctx), &p})
			if err != nil {
				return nil, err
			}
			text, err := json.Marshal(out)
			return map[string]any{"content": []any{map[string]any{"type": "text", "text": string(text)}}}, err
		})
}

type ownVoice struct {
	h *rejoin.Handle
	p *part
}

func (v *ownVoice) progress(n int) error { return v.h.Progress(float64(n+1), 0, "") }

func (v *ownVoice) tell(_ context.Context, kind string, n, pad int) error {
	return v.h.Notify("notifications/message", remark(v.p, kind, n, pad))
}

func (v *ownVoice) aside(n int) error {
	params, err := json.Marshal(remark(v.p, "aside", n, 0))
	if err != nil {
		return err
	}
	return v.h.Session().Notify(context.Background(), "notifications/message", params)
}

func (v *ownVoice) letGo(d time.Duration, standalone bool) { letGo(v.h, d, standalone) }

// letGo never fails for a tool: clients that cannot poll stay.
func letGo(h *rejoin.Handle, d time.Duration, standalone bool) {
	if standalone {
		_ = h.CloseStandaloneStream(d)
		return
	}
	_ = h.CloseStream(d)
}

func (v *ownVoice) ask(ctx context.Context, until time.Time) (string, error) {
	var answer struct{ Action string }
	err := v.h.Request(ctx, "elicitation/create", map[string]any{"message": wording(v.p, until), "requestedSchema": form}, &answer)
	return answer.Action, err
}

// officialServer is a server of the official SDK.
func officialServer() *official.Server {
	s := official.NewServer(&official.Implementation{Name: "soak", Version: "1"}, nil)
	official.AddTool(s, &official.Tool{Name: "perform"},
		func(ctx context.Context, req *official.CallToolRequest, p part) (*official.CallToolResult, any, error) {
			out, err := perform(ctx, &p, &officialVoice{ctx, req, &p})
			if err != nil {
				return nil, nil, err
			}
			text, err := json.Marshal(out)
			return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: string(text)}}}, nil, err
		})
	return s
}

type officialVoice struct {
	ctx context.Context
	req *official.CallToolRequest
	p   *part
}

func (v *officialVoice) progress(n int) error {
	return v.req.Session.NotifyProgress(v.ctx, &official.ProgressNotificationParams{
		ProgressToken: v.req.Params.GetProgressToken(), Progress: float64(n + 1),
	})
}

func (v *officialVoice) tell(ctx context.Context, kind string, n, pad int) error {
	return v.req.Session.Log(ctx, &official.LoggingMessageParams{Level: "info", Logger: kind, Data: remarkData(v.p, n, pad)})
}

func (v *officialVoice) aside(n int) error { return v.tell(context.Background(), "aside", n, 0) }

func (v *officialVoice) letGo(d time.Duration, standalone bool) {
	if closeStream := v.req.Extra.CloseSSEStream; closeStream != nil && !standalone {
		closeStream(official.CloseSSEStreamArgs{RetryAfter: d})
		return
	}
	letGo(rejoin.HandleFromContext(v.ctx), d, standalone)
}

func (v *officialVoice) ask(ctx context.Context, until time.Time) (string, error) {
	answer, err := v.req.Session.Elicit(ctx, &official.ElicitParams{Message: wording(v.p, until), RequestedSchema: form})
	if err != nil {
		return "", err
	}
	return answer.Action, nil
}

// markServer is a server of mcp-go.
func markServer() *server.MCPServer {
	s := server.NewMCPServer("soak", "1", server.WithToolCapabilities(true), server.WithLogging(), server.WithElicitation())
	s.AddTool(mcp.NewTool("perform"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var p part
		if err := req.BindArguments(&p); err != nil {
			return nil, err
		}
		out, err := perform(ctx, &p, &markVoice{ctx, s, req, &p})
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(out)
		return mcp.NewToolResultText(string(text)), err
	})
	return s
}

type markVoice struct {
	ctx context.Context
	s   *server.MCPServer
	req mcp.CallToolRequest
	p   *part
}

func (v *markVoice) progress(n int) error {
	return v.s.SendNotificationToClient(v.ctx, "notifications/progress", map[string]any{
		"progressToken": v.req.Params.Meta.ProgressToken, "progress": n + 1,
	})
}

func (v *markVoice) tell(ctx context.Context, kind string, n, pad int) error {
	return v.s.SendNotificationToClient(ctx, "notifications/message", remark(v.p, kind, n, pad))
}

func (v *markVoice) aside(n int) error {
	id := server.ClientSessionFromContext(v.ctx).SessionID()
	return v.s.SendNotificationToSpecificClient(id, "notifications/message", remark(v.p, "aside", n, 0))
}

func (v *markVoice) letGo(d time.Duration, standalone bool) {
	letGo(rejoin.HandleFromContext(v.ctx), d, standalone)
}

func (v *markVoice) ask(ctx context.Context, until time.Time) (string, error) {
	answer, err := v.s.RequestElicitation(ctx, mcp.ElicitationRequest{
		Params: mcp.ElicitationParams{Message: wording(v.p, until), RequestedSchema: form},
	})
	if err != nil {
		return "", err
	}
	return string(answer.Action), nil
}
