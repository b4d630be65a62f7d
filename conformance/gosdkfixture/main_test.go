package main

import (
	"testing"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/conformance/internal/erastest"
)

func TestBothEras(t *testing.T) { erastest.Run(t, gosdk.New(newServer())) }

func TestJobs(t *testing.T) { erastest.Jobs(t, func() rejoin.App { return gosdk.New(newServer()) }) }
