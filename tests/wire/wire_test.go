package wire_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// row is a promise about the wire: how certain requests are answered, with all header fields. Its name says which.
type row struct {
	name string
	test func(*testing.T)
}

// rowTables are the tables of this package's files. What becomes of a stream is in ../streams/state_test.go.
var rowTables = []struct {
	name string
	rows []row
}{
	{"the door", doorRows},
	{"a session", sessionRows},
	{"work", workRows},
	{"the mode of a POST", modeRows},
	{"a batch", batchRows},
	{"a GET", getRows},
	{"the eras", eraRows},
	{"the era by the client", defaultEraRows},
	{"an app of NewApp in the modern era", newAppRows},
	{"tasks", taskRows},
	{"fields that came twice", joinedRows},
	{"bounds", boundRows},
	{"a cluster", clusterRows},
}

// refusedWith has the messages of all refusals that rows have seen.
var refusedWith sync.Map

// Every row holds, and every refusal in the source is in a row.
func TestTheWireRowByRow(t *testing.T) {
	all, ran := 0, 0
	for _, table := range rowTables {
		t.Run(table.name, func(t *testing.T) {
			seen := map[string]bool{}
			for _, r := range table.rows {
				require.False(t, seen[r.name], "two rows are named %q", r.name)
				seen[r.name] = true
				t.Run(r.name, func(t *testing.T) {
					ran++
					kit.Bubble(t, r.test)
				})
			}
		})
		all += len(table.rows)
	}
	if ran < all || t.Failed() { // some rows were not selected, or have failed
		return
	}
	for _, message := range refusalsOfTheSource(t) {
		found := false
		refusedWith.Range(func(said, _ any) bool {
			found = message.MatchString(fmt.Sprint(said))
			return !found
		})
		require.True(t, found, "no row has seen the refusal %s", message)
	}
}

// sources is the folder of the code that refuses.
const sources = "../.."

// refusalsOfTheSource returns the messages of refusals in the source, as patterns: the arguments of badRequest, and the values of the field message of a
// refusal.
func refusalsOfTheSource(t *testing.T) (all []*regexp.Regexp) {
	t.Helper()
	files, err := os.ReadDir(sources)
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(sources, f.Name()), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			var message ast.Expr
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "badRequest" {
					message = n.Args[0]
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "message" {
					message = n.Value
				}
			case *ast.AssignStmt:
				if f, ok := n.Lhs[0].(*ast.SelectorExpr); ok && f.Sel.Name == "message" {
					message = n.Rhs[0]
				}
			}
			if pattern := patternOf(message); strings.Trim(pattern, ".*") != "" {
				all = append(all, regexp.MustCompile("^"+pattern+"$"))
			}
			return true
		})
	}
	require.Greater(t, len(all), 20)
	return all
}

var verbsOfAFormat = regexp.MustCompile(`%[a-z]`)

// patternOf returns a pattern for the values of a string expression. What is not a constant may be any text.
func patternOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return verbsOfAFormat.ReplaceAllString(regexp.QuoteMeta(s), ".*")
	case *ast.BinaryExpr:
		return patternOf(e.X) + patternOf(e.Y)
	}
	return ".*"
}
