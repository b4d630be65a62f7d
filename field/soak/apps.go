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

// ownApp is an app of rejoin's own, without an SDK.
func ownApp() rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "soak", Version: "1", Capabilities: map[string]any{"tools": struct{}{}, "logging": struct{}{}}},
		func(ctx context.Context, r *rejoin.Request) (any, error) {
			if r.Method != "tools/call" {
				return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "no such method: %s", r.Method)
			}
			if r.Name() == "survey" {
				return ownSurvey(ctx, r)
			}
			var p toolArgs
			if err := r.BindArguments(&p); err != nil {
				return nil, err
			}
			out, err := perform(ctx, &p, &ownSender{rejoin.HandleFromContext(ctx), &p})
			if err != nil {
				return nil, err
			}
			text, err := json.Marshal(out)
			return map[string]any{"content": []any{map[string]any{"type": "text", "text": string(text)}}}, err
		})
}

type ownSender struct {
	h *rejoin.Handle
	p *toolArgs
}

func (v *ownSender) progress(n int) error { return v.h.Progress(float64(n+1), 0, "") }

func (v *ownSender) tell(_ context.Context, kind string, n, pad int) error {
	return v.h.Notify("notifications/message", logParams(v.p, kind, n, pad))
}

func (v *ownSender) tellStandalone(n int) error {
	params, err := json.Marshal(logParams(v.p, "standalone", n, 0))
	if err != nil {
		return err
	}
	return v.h.Session().Notify(context.Background(), "notifications/message", params)
}

func (v *ownSender) closeStream(d time.Duration, standalone bool) { closeStream(v.h, d, standalone) }

// closeStream closes the call's stream or the standalone one. It ignores errors: clients that cannot poll stay connected.
func closeStream(h *rejoin.Handle, d time.Duration, standalone bool) {
	if standalone {
		_ = h.CloseStandaloneStream(d)
		return
	}
	_ = h.CloseStream(d)
}

func (v *ownSender) ask(ctx context.Context, until time.Time) (string, error) {
	var answer struct{ Action string }
	err := v.h.Ask(ctx, "elicitation/create", map[string]any{"message": wording(v.p, until), "requestedSchema": form}, &answer)
	return answer.Action, err
}

// goSDKServer is a server of the official Go SDK.
func goSDKServer() *official.Server {
	s := official.NewServer(&official.Implementation{Name: "soak", Version: "1"}, nil)
	official.AddTool(s, &official.Tool{Name: "survey"}, goSDKSurvey)
	official.AddTool(s, &official.Tool{Name: "perform"},
		func(ctx context.Context, req *official.CallToolRequest, p toolArgs) (*official.CallToolResult, any, error) {
			out, err := perform(ctx, &p, &goSDKSender{ctx, req, &p})
			if err != nil {
				return nil, nil, err
			}
			text, err := json.Marshal(out)
			return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: string(text)}}}, nil, err
		})
	return s
}

type goSDKSender struct {
	ctx context.Context
	req *official.CallToolRequest
	p   *toolArgs
}

func (v *goSDKSender) progress(n int) error {
	return v.req.Session.NotifyProgress(v.ctx, &official.ProgressNotificationParams{
		ProgressToken: v.req.Params.GetProgressToken(), Progress: float64(n + 1),
	})
}

func (v *goSDKSender) tell(ctx context.Context, kind string, n, pad int) error {
	return v.req.Session.Log(ctx, &official.LoggingMessageParams{Level: "info", Logger: kind, Data: logData(v.p, n, pad)})
}

func (v *goSDKSender) tellStandalone(n int) error {
	return v.tell(context.Background(), "standalone", n, 0)
}

func (v *goSDKSender) closeStream(d time.Duration, standalone bool) {
	if closeStream := v.req.Extra.CloseSSEStream; closeStream != nil && !standalone && !v.p.Modern { // in the modern era it is not rejoin's
		closeStream(official.CloseSSEStreamArgs{RetryAfter: d})
		return
	}
	closeStream(rejoin.HandleFromContext(v.ctx), d, standalone)
}

func (v *goSDKSender) ask(ctx context.Context, until time.Time) (string, error) {
	if v.p.Modern {
		return (&ownSender{rejoin.HandleFromContext(v.ctx), v.p}).ask(ctx, until)
	}
	answer, err := v.req.Session.Elicit(ctx, &official.ElicitParams{Message: wording(v.p, until), RequestedSchema: form})
	if err != nil {
		return "", err
	}
	return answer.Action, nil
}

// mcpGoServer is a server of mcp-go.
func mcpGoServer() *server.MCPServer {
	s := server.NewMCPServer("soak", "1", server.WithToolCapabilities(true), server.WithLogging(), server.WithElicitation())
	s.AddTool(mcp.NewTool("survey"), mcpGoSurvey)
	s.AddTool(mcp.NewTool("perform"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var p toolArgs
		if err := req.BindArguments(&p); err != nil {
			return nil, err
		}
		out, err := perform(ctx, &p, &mcpGoSender{ctx, s, req, &p})
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(out)
		return mcp.NewToolResultText(string(text)), err
	})
	return s
}

type mcpGoSender struct {
	ctx context.Context
	s   *server.MCPServer
	req mcp.CallToolRequest
	p   *toolArgs
}

func (v *mcpGoSender) progress(n int) error {
	return v.s.SendNotificationToClient(v.ctx, "notifications/progress", map[string]any{
		"progressToken": v.req.Params.Meta.ProgressToken, "progress": n + 1,
	})
}

func (v *mcpGoSender) tell(ctx context.Context, kind string, n, pad int) error {
	return v.s.SendNotificationToClient(ctx, "notifications/message", logParams(v.p, kind, n, pad))
}

func (v *mcpGoSender) tellStandalone(n int) error {
	id := server.ClientSessionFromContext(v.ctx).SessionID()
	return v.s.SendNotificationToSpecificClient(id, "notifications/message", logParams(v.p, "standalone", n, 0))
}

func (v *mcpGoSender) closeStream(d time.Duration, standalone bool) {
	closeStream(rejoin.HandleFromContext(v.ctx), d, standalone)
}

func (v *mcpGoSender) ask(ctx context.Context, until time.Time) (string, error) {
	if v.p.Modern {
		return (&ownSender{rejoin.HandleFromContext(v.ctx), v.p}).ask(ctx, until)
	}
	answer, err := v.s.RequestElicitation(ctx, mcp.ElicitationRequest{
		Params: mcp.ElicitationParams{Message: wording(v.p, until), RequestedSchema: form},
	})
	if err != nil {
		return "", err
	}
	return string(answer.Action), nil
}
