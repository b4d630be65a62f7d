// Package calls_test tests what a tool can use: its context, its handle, questions to the client, batches, cancellation, and NewApp.
package calls_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
