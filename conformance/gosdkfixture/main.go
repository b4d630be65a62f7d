// The fixture is a server for the MCP conformance suite, written with the official Go SDK, in one process and on one URL: each tool, resource
// and prompt that the suite's server scenarios of 2025-11-25, of 2026-07-28 and of tasks need. Package program runs it.
package main

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/conformance/internal/program"
	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

func main() { program.Main(func() rejoin.App { return gosdk.New(newServer()) }) }

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "rejoin-conformance-gosdk", Version: "1.0.0"}, &mcp.ServerOptions{
		CompletionHandler: complete,
		// Nothing here ever changes, and the SDK keeps the list.
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addTools(s)
	addResources(s)
	addPrompts(s)
	return s
}

func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	values := []string{}
	for _, word := range sample.Words {
		if strings.HasPrefix(word, req.Params.Argument.Value) {
			values = append(values, word)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}, nil
}
