package main

import (
	"testing"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
	"github.com/rejoin-mcp/rejoin/examples/internal/exampletest"
)

func TestExample(t *testing.T) { exampletest.RunBridge(t, run) }

func TestToolsInVirtualTime(t *testing.T) {
	exampletest.Tools(t, func() rejoin.App {
		mcpServer := newServer()
		addLetGo(mcpServer)
		return mcpgo.New(mcpServer)
	}, "export")
}
