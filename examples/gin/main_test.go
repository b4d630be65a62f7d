package main

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/examples/internal/exampletest"
)

func TestExample(t *testing.T) { exampletest.Run(t, run) }
