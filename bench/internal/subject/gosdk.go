package subject

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	gosdkbridge "github.com/rejoin-mcp/rejoin/bridge/gosdk"
)

// newGoSDK serves a server of the official SDK with the SDK's own transport.
func newGoSDK(raw, stores bool, opts mcp.StreamableHTTPOptions) func(Options) (http.Handler, error) {
	return func(o Options) (http.Handler, error) {
		opts := opts
		opts.Logger = discardLogger()
		if stores {
			store := mcp.NewMemoryEventStore(nil)
			store.SetMaxBytes(int(o.StoreBytes)) // 0 is the default
			opts.EventStore = store
		}
		s := goSDKServer(raw, o)
		mux := http.NewServeMux()
		mux.Handle(Path, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &opts))
		return mux, nil
	}
}

// goSDKApp puts the same server behind rejoin.
func goSDKApp(raw bool) func(Options) rejoin.App {
	return func(o Options) rejoin.App { return gosdkbridge.New(goSDKServer(raw, o)) }
}

// goSDKServer is the server. raw: the tools get the arguments undecoded, and the SDK makes and checks no schema.
func goSDKServer(raw bool, o Options) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: serverName, Version: serverVersion}, &mcp.ServerOptions{Logger: discardLogger()})
	t := goSDKTools{o.Gate}
	if raw {
		addRaw(s, Echo, echoAbout, t.echo)
		addRaw(s, Burst, burstAbout, t.burst)
		addRaw(s, Hold, holdAbout, t.hold)
		return s
	}
	mcp.AddTool(s, &mcp.Tool{Name: Echo, Description: echoAbout}, typed(t.echo))
	mcp.AddTool(s, &mcp.Tool{Name: Burst, Description: burstAbout}, typed(t.burst))
	mcp.AddTool(s, &mcp.Tool{Name: Hold, Description: holdAbout}, typed(t.hold))
	return s
}

type goSDKTool[Args any] func(context.Context, *mcp.CallToolRequest, Args) (*mcp.CallToolResult, error)

func typed[Args any](tool goSDKTool[Args]) mcp.ToolHandlerFor[Args, any] {
	return func(ctx context.Context, req *mcp.CallToolRequest, args Args) (*mcp.CallToolResult, any, error) {
		result, err := tool(ctx, req, args)
		return result, nil, err
	}
}

func addRaw[Args any](s *mcp.Server, name, about string, tool goSDKTool[Args]) {
	s.AddTool(&mcp.Tool{Name: name, Description: about, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var args Args
			if len(req.Params.Arguments) > 0 {
				if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
					return nil, err
				}
			}
			return tool(ctx, req, args)
		})
}

type goSDKTools struct{ gate *Gate }

func goSDKText(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func (t goSDKTools) echo(_ context.Context, _ *mcp.CallToolRequest, args echoArgs) (*mcp.CallToolResult, error) {
	return goSDKText(args.Text), nil
}

func (t goSDKTools) burst(ctx context.Context, req *mcp.CallToolRequest, args burstArgs) (*mcp.CallToolResult, error) {
	if args.Close {
		goSDKCloseStream(ctx, req)
	}
	token := req.Params.GetProgressToken()
	for i := range args.N {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: float64(i + 1), Total: float64(args.N), Message: stepMessage,
		})
		if err != nil {
			return nil, err
		}
	}
	return goSDKText(burstAnswer), nil
}

func (t goSDKTools) hold(ctx context.Context, req *mcp.CallToolRequest, args holdArgs) (*mcp.CallToolResult, error) {
	if args.Close {
		goSDKCloseStream(ctx, req)
	}
	select {
	case <-t.gate.Done():
		return goSDKText(holdAnswer + args.Text), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// goSDKCloseStream works behind the bridge, where it is rejoin's in both eras, and with the SDK's own transport.
func goSDKCloseStream(ctx context.Context, req *mcp.CallToolRequest) {
	if err := closeStream(ctx); errors.Is(err, rejoin.ErrNoCall) && req.Extra != nil && req.Extra.CloseSSEStream != nil {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: retryMillis * time.Millisecond})
	}
}
