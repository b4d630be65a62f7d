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

// row is a promise about what the server says on the wire: which requests, and what they are answered with, to the last header field.
// Its name says it.
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
	{"fields that came twice", joinedRows},
	{"bounds", boundRows},
}

// refusedWith are the messages of all refusals that a row has seen.
var refusedWith sync.Map

// Every row holds, and every refusal that the source knows is in one.
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
	if ran < all || t.Failed() { // some were not asked for, or are not to be relied on
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

// refusalsOfTheSource are the messages that are written down there, as patterns: what badRequest is called with, and what stands in
// the field message of a refusal.
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

// patternOf is what a string looks like. What is not written down in it may be anything.
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
