// The fixture is a server for the MCP conformance suite, written with mcp-go, in one process and on one URL: each tool, resource and prompt
// that the suite's server scenarios of 2025-11-25, of 2026-07-28 and of tasks need. expected-failures.yml lists what mcp-go cannot do. Package
// program runs it.
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

func main() { program.Main(func() rejoin.App { return mcpgo.New(newServer()) }) }

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

// fixture has the server, which the tools need to send notifications.
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
