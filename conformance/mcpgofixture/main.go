// The fixture is a server written with mcp-go that the MCP conformance suite talks to, in one process and on one URL: each tool,
// resource and prompt that the suite's server scenarios of 2025-11-25 and 2026-07-28 ask for. What mcp-go cannot say is listed in
// expected-failures.yml. See package program for how it is run.
package main

import (
	"context"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
	"github.com/rejoin-mcp/rejoin/conformance/internal/program"
	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

func main() { program.Main(mcpgo.New(newServer()), rejoin.Both) }

func newServer() *server.MCPServer {
	s := server.NewMCPServer("rejoin-conformance-mcpgo", "1.0.0",
		server.WithToolCapabilities(true),
		server.WithResourceCapabilities(true, true),
		server.WithPromptCapabilities(true),
		server.WithCompletions(),
		server.WithPromptCompletionProvider(completions{}),
		server.WithLogging(),
		server.WithElicitation(),
		server.WithRoots(),
	)
	s.EnableSampling()
	f := &fixture{s}
	f.addTools()
	f.addResources()
	f.addPrompts()
	return s
}

// fixture has the server, which mcp-go's tools need in order to send.
type fixture struct{ s *server.MCPServer }

type completions struct{}

func (completions) CompletePromptArgument(_ context.Context, _ string, argument mcp.CompleteArgument, _ mcp.CompleteContext) (*mcp.Completion, error) {
	values := []string{}
	for _, word := range sample.Words {
		if strings.HasPrefix(word, argument.Value) {
			values = append(values, word)
		}
	}
	return &mcp.Completion{Values: values, Total: len(values)}, nil
}
