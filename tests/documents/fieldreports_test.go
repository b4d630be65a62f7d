package documents_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fieldReports is how many there are. A row that is dropped is missed.
const fieldReports = 88

// Every report has a test that exists where the document says, or a reason why it needs none, or is named among those that wait.
func TestTheFieldReportsAreCovered(t *testing.T) {
	text, err := os.ReadFile("docs/field-reports.md")
	require.NoError(t, err)
	files := testFiles(t)
	for _, fault := range faultsOfReports(string(text), files) {
		t.Error("docs/field-reports.md: " + fault)
	}
}

// The check can fail.
func TestFaultsOfTheFieldReportsAreFound(t *testing.T) {
	files := map[string]map[string]bool{"TestX": {"a_test.go": true, "b/b_test.go": true}, "TestY": {"a_test.go": true}}
	whole := func(row, waits string) string {
		var b strings.Builder
		b.WriteString("| # | symptom | what rejoin does | tests |\n|---|---|---|---|\n" + row + "\n")
		for n := 2; n < fieldReports; n++ {
			b.WriteString("| " + strconv.Itoa(n) + " | it hangs (x #1) | it does not | `TestX` (a_test.go) |\n")
		}
		return b.String() + "\n## These wait for a shared store\n\n| # | symptom |\n|---|---|\n" + waits + "\n"
	}
	const good = "| 1 | it hangs (x #1) | it does not | `TestX` (a_test.go, b/b_test.go), `TestY` (a_test.go) |"
	last := strconv.Itoa(fieldReports)
	wait := "| " + last + " | it is lost (x #2) |"
	for _, test := range []struct{ row, waits, want string }{
		{good, wait, ""},
		{"| 1 | it hangs (x #1) | it does not | by construction: there is no lock |", wait, ""},
		{"| 1 | it hangs (x #1) | it does not | by construction: no lock; `TestZ` (a_test.go) |", wait, "1: there is no test TestZ in a_test.go"},
		{"| 1 | it hangs (x #1) | it does not | by construction: |", wait, "1: neither a test nor a reason"},
		{"| 1 | it hangs (x #1) | it does not | |", wait, "1: neither a test nor a reason"},
		{"| 1 | it hangs (x #1) | it does not | TestX (a_test.go) |", wait, "1: neither a test nor a reason"},
		{"| 1 | it hangs (x #1) | it does not | `TestX` |", wait, "1: TestX names no file"},
		{"| 1 | it hangs (x #1) | it does not | `TestY` (b/b_test.go) |", wait, "1: there is no test TestY in b/b_test.go"},
		{"| 1 | it hangs | it does not | `TestX` (a_test.go) |", wait, "1: it names no thread"},
		{"| 1 | it hangs (x #1) | | `TestX` (a_test.go) |", wait, "1: an empty cell"},
		{"| 1 | it hangs (x #1) | `TestX` (a_test.go) |", wait, "1: 3 cells, not 4"},
		{"| x | it hangs (x #1) | it does not | `TestX` (a_test.go) |", wait, "x is no number; 1 is missing"},
		{"| 2 | it hangs (x #1) | it does not | `TestX` (a_test.go) |", wait, "2 comes twice; 1 is missing"},
		{good, "", last + " is missing"},
		{good, "| " + last + " | it is lost |", last + ": it names no thread"},
		{good, "| " + last + " | it is lost, but `TestZ` (x #1) |", last + ": there is no test TestZ"},
		{good, wait + "\n| " + strconv.Itoa(fieldReports+1) + " | more (x #1) |", strconv.Itoa(fieldReports+1) + " is no row"},
	} {
		require.Equal(t, test.want, strings.Join(faultsOfReports(whole(test.row, test.waits), files), "; "), "%s\n%s", test.row, test.waits)
	}
}

var (
	aTest    = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`(?: \\(([^)]*)\\))?")
	aThread  = regexp.MustCompile(`\([^)]*#[0-9]+[^)]*\)|\(found (here|with [^)]+|by [^)]+)\)`)
	aReason  = regexp.MustCompile(`^by construction: \S`)
	waitsFor = "## These wait for a shared store"
)

// faultsOfReports says what is wrong with the two tables.
func faultsOfReports(text string, files map[string]map[string]bool) (faults []string) {
	seen := map[int]bool{}
	waiting := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		waiting = waiting || line == waitsFor
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| # ") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		number, err := strconv.Atoi(cells[0])
		switch {
		case err != nil:
			faults = append(faults, cells[0]+" is no number")
			continue
		case number < 1 || number > fieldReports:
			faults = append(faults, cells[0]+" is no row")
			continue
		case seen[number]:
			faults = append(faults, cells[0]+" comes twice")
		}
		seen[number] = true
		for _, fault := range faultsOfReport(cells, waiting, files) {
			faults = append(faults, cells[0]+": "+fault)
		}
	}
	for n := 1; n <= fieldReports; n++ {
		if !seen[n] {
			faults = append(faults, strconv.Itoa(n)+" is missing")
		}
	}
	return faults
}

func faultsOfReport(cells []string, waiting bool, files map[string]map[string]bool) (faults []string) {
	want := 4
	if waiting {
		want = 2
	}
	if len(cells) != want {
		return []string{strconv.Itoa(len(cells)) + " cells, not " + strconv.Itoa(want)}
	}
	if !aThread.MatchString(cells[1]) {
		faults = append(faults, "it names no thread")
	}
	if waiting {
		for _, m := range aTest.FindAllStringSubmatch(cells[1], -1) {
			if files[m[1]] == nil {
				faults = append(faults, "there is no test "+m[1])
			}
		}
		return faults
	}
	if cells[2] == "" {
		faults = append(faults, "an empty cell")
	}
	tests := aTest.FindAllStringSubmatch(cells[3], -1)
	if len(tests) == 0 && !aReason.MatchString(cells[3]) {
		faults = append(faults, "neither a test nor a reason")
	}
	for _, m := range tests {
		if m[2] == "" {
			faults = append(faults, m[1]+" names no file")
			continue
		}
		for file := range strings.SplitSeq(m[2], ", ") {
			if !files[m[1]][file] {
				faults = append(faults, "there is no test "+m[1]+" in "+file)
			}
		}
	}
	return faults
}

// testFiles are the files of each test and fuzz target of the repository, in all its modules.
func testFiles(t *testing.T) map[string]map[string]bool {
	t.Helper()
	files := map[string]map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "out" || len(d.Name()) > 1 && d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
				continue
			}
			if files[f.Name.Name] == nil {
				files[f.Name.Name] = map[string]bool{}
			}
			files[f.Name.Name][filepath.ToSlash(path)] = true
		}
		return nil
	}))
	return files
}
