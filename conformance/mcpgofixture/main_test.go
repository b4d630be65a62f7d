package main

import (
	"testing"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
	"github.com/rejoin-mcp/rejoin/conformance/internal/erastest"
)

func TestBothEras(t *testing.T) { erastest.Run(t, mcpgo.New(newServer())) }

func TestJobs(t *testing.T) { erastest.Jobs(t, func() rejoin.App { return mcpgo.New(newServer()) }) }
