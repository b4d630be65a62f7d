//go:build unix

package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	official "github.com/modelcontextprotocol/go-sdk/mcp"
)

// goSDKGuest is a session of the official Go client, as it is by default.
type goSDKGuest struct {
	crowd *crowd
	s     *official.ClientSession
}

func openGoSDK(ctx context.Context, c *crowd, url string, _ *rand.Rand) (guest, error) {
	g := &goSDKGuest{crowd: c}
	peer := official.NewClient(&official.Implementation{Name: "go-sdk", Version: "1"}, &official.ClientOptions{
		Logger: slog.New(slog.DiscardHandler),
		ProgressNotificationHandler: func(_ context.Context, r *official.ProgressNotificationClientRequest) {
			c.progress(fmt.Sprint(r.Params.ProgressToken), r.Params.Message)
		},
	})
	var err error
	way := &official.StreamableClientTransport{Endpoint: url, HTTPClient: c.http}
	g.s, err = peer.Connect(ctx, way, &official.ClientSessionOptions{ProtocolVersion: protocol})
	return g, err
}

func (g *goSDKGuest) id() string    { return g.s.ID() }
func (g *goSDKGuest) listens() bool { return false }

func (g *goSDKGuest) close(ctx context.Context) { bounded(ctx, func() { _ = g.s.Close() }) } // the session may be over

func (g *goSDKGuest) call(ctx context.Context, r *record) {
	result, err := g.s.CallTool(ctx, &official.CallToolParams{Name: "work", Arguments: &r.Work, Meta: official.Meta{"progressToken": r.Name}})
	if err != nil {
		g.crowd.settle(ctx, r, err)
		return
	}
	text, ok := result.Content[0].(*official.TextContent)
	if !ok {
		r.faulty(foreign, r.Name+" got a result that is not text")
		return
	}
	g.crowd.handled(ctx, r)
	r.answer(text.Text, result.IsError)
}

// mcpGoGuest is a session of mcp-go's client, as it is by default.
type mcpGoGuest struct {
	crowd *crowd
	s     *mcpgoclient.Client
}

func openMCPGo(ctx context.Context, c *crowd, url string, _ *rand.Rand) (guest, error) {
	wire, err := transport.NewStreamableHTTP(url, transport.WithHTTPLogger(slog.New(slog.DiscardHandler)), transport.WithHTTPBasicClient(c.http))
	if err != nil {
		return nil, err
	}
	g := &mcpGoGuest{c, mcpgoclient.NewClient(wire, mcpgoclient.WithProtocolVersion(protocol))}
	g.s.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == "notifications/progress" {
			f := n.Params.AdditionalFields
			c.progress(fmt.Sprint(f["progressToken"]), fmt.Sprint(f["message"]))
		}
	})
	if err := g.s.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	request := mcp.InitializeRequest{}
	request.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1"}
	if _, err := g.s.Initialize(ctx, request); err != nil {
		_ = g.s.Close() // it was not opened
		return nil, err
	}
	return g, nil
}

func (g *mcpGoGuest) id() string    { return g.s.GetSessionId() }
func (g *mcpGoGuest) listens() bool { return false }

func (g *mcpGoGuest) close(ctx context.Context) { bounded(ctx, func() { _ = g.s.Close() }) } // the session may be over

func (g *mcpGoGuest) call(ctx context.Context, r *record) {
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = "work", &r.Work
	request.Params.Meta = &mcp.Meta{ProgressToken: r.Name}
	result, err := g.s.CallTool(ctx, request)
	if err != nil {
		g.crowd.settle(ctx, r, err)
		return
	}
	text, ok := result.Content[0].(mcp.TextContent)
	if !ok {
		r.faulty(foreign, r.Name+" got a result that is not text")
		return
	}
	g.crowd.handled(ctx, r)
	r.answer(text.Text, result.IsError)
}

// progress notes an event that a library has handed over.
func (c *crowd) progress(token, text string) {
	c.ledger.mu.Lock()
	r := c.ledger.byName[token]
	c.ledger.mu.Unlock()
	if r == nil {
		c.ledger.faulty(foreign, text+" came with the token "+token)
		return
	}
	r.event(text)
}

// handled waits for the events of a call whose result has come: libraries hand them over in other goroutines.
func (c *crowd) handled(ctx context.Context, r *record) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for r.has() < r.Work.Events && pause(ctx, 5*time.Millisecond) == nil { //nolint:revive // the library tells nothing when it is done
	}
}

// bounded runs f, and does not wait for it longer than ctx.
func bounded(ctx context.Context, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
