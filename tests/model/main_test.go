// Package model_test compares whole histories with a model: fuzzed sessions, requests and cursors, and clients of random behaviour that account
// for every event.
package model_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
