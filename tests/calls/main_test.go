// Package calls_test is about what a tool has in its hands: its context, its handle, questions to the client, batches,
// cancellation, and NewApp.
package calls_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
