// Package documents_test holds the documents against the code: the tests and files they name exist, versions are right, and
// packages import what ARCHITECTURE.md says. Its tests run in the root of the repository.
package documents_test

import (
	"os"
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil { // so that paths are what the documents say
		panic(err)
	}
	kit.Main(m)
}
