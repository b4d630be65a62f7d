// Package documents_test compares the documents with the code: the tests and files that they name exist, versions are right, lines are short, and
// packages import only what ARCHITECTURE.md allows. The tests run in the root folder of the repository.
package documents_test

import (
	"os"
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil { // so that paths are those of the documents
		panic(err)
	}
	kit.Main(m)
}
