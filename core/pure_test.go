package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPure: the core computes; it never acts. It has no goroutine, lock, clock, randomness or I/O, so it cannot even import what
// has them.
func TestPure(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	parsed := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, what := range impure(f) {
			t.Errorf("%s: %s", path, what)
		}
		parsed++
	}
	require.Greater(t, parsed, 10, "the files of the package were found")
}

// TestImpure: the test above would notice.
func TestImpure(t *testing.T) {
	for src, want := range map[string]string{
		`import "sync"`:                       `imports "sync"`,
		`import "context"`:                    `imports "context"`,
		`import "math/rand/v2"`:               `imports "math/rand/v2"`,
		`import . "time"`:                     `imports "time" under another name`,
		`import clock "time"`:                 `imports "time" under another name`,
		`import "C"`:                          `imports "C"`,
		`func f() { go f() }`:                 "starts a goroutine",
		`type t struct { c chan int }`:        "has a channel",
		`func f(c <-chan int) {}`:             "has a channel",
		`func f() { select {} }`:              "selects",
		`func f() { x <- 1 }`:                 "sends",
		`func f() { <-x }`:                    "receives",
		"import \"time\"\nvar x = time.Now()": "uses time.Now",
		"import \"time\"\nfunc f() { g := time.Since; g(x) }":      "uses time.Since",
		"import \"time\"\nvar x = time.AfterFunc(1, f)":            "uses time.AfterFunc",
		`func f() { println("x") }`:                                "prints",
		`var x = 1`:                                                "has a variable that any machine could change",
		"import \"time\"\nvar Table = [...]time.Duration{1, 2, 3}": "",
		"import \"time\"\nfunc f(at time.Time) int { return 1 }":   "",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+src, 0)
		require.NoError(t, err, src)
		got := impure(f)
		if want == "" {
			require.Empty(t, got, src)
		} else {
			require.Contains(t, got, want, src)
		}
	}
}

// pureImports is all that the package may use. Of time, only types and constants, and what computes with them.
var (
	pureImports = map[string]bool{"time": true, "math": true, "math/bits": true, "slices": true, "strconv": true, "strings": true, "cmp": true}
	impureTime  = map[string]bool{
		"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "NewTimer": true, "NewTicker": true,
		"Tick": true, "Local": true, "LoadLocation": true,
	}
)

// impure lists what a pure package would not have.
func impure(f *ast.File) (found []string) {
	for _, s := range f.Imports {
		path, _ := strconv.Unquote(s.Path.Value)
		switch {
		case !pureImports[path]:
			found = append(found, "imports "+s.Path.Value)
		case s.Name != nil:
			found = append(found, "imports "+s.Path.Value+" under another name")
		}
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
			for _, s := range g.Specs {
				if v := s.(*ast.ValueSpec); !readOnly(v) {
					found = append(found, "has a variable that any machine could change")
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, "starts a goroutine")
		case *ast.ChanType:
			found = append(found, "has a channel")
		case *ast.SelectStmt:
			found = append(found, "selects")
		case *ast.SendStmt:
			found = append(found, "sends")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				found = append(found, "receives")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && impureTime[n.Sel.Name] {
				found = append(found, "uses time."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "print" || x.Name == "println") {
				found = append(found, "prints")
			}
		}
		return true
	})
	return found
}

// readOnly reports whether a variable is a table: a composite literal.
func readOnly(v *ast.ValueSpec) bool {
	for _, x := range v.Values {
		if _, ok := x.(*ast.CompositeLit); !ok {
			return false
		}
	}
	return len(v.Values) > 0
}
