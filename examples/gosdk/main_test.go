package main

import (
	"testing"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/examples/internal/exampletest"
)

func TestExample(t *testing.T) { exampletest.RunBridge(t, run) }

func TestToolsInVirtualTime(t *testing.T) {
	exampletest.Tools(t, func() rejoin.App {
		server := newServer()
		addLetGo(server)
		return gosdk.New(server)
	}, "export", "archive")
}
