// Package store_test tests event stores that are slow, full or too small, that fail, panic or never answer.
package store_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
