package documents_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fieldReports is how many there are. A report that is dropped is missed.
const fieldReports = 89

// Every report has a test in the file that the document names, or a reason why it needs none.
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
	whole := func(report, last string) string {
		var b strings.Builder
		b.WriteString("# Reports\n\n" + report + "\n")
		for n := 2; n < fieldReports; n++ {
			b.WriteString("- **" + strconv.Itoa(n) + "** it hangs (x #1)\n  - *rejoin:* it does not\n  - *tests:* `TestX` (a_test.go)\n")
		}
		return b.String() + last + "\n\n## Also seen\n\n- Advice.\n"
	}
	one := func(symptom, tests string) string {
		return "- **1** " + symptom + "\n  - *rejoin:* it does\n    not\n  - *tests:* " + tests
	}
	good := one("it\n  hangs (x #1)", "`TestX`\n    (a_test.go, b/b_test.go); `TestY`, `TestX` (a_test.go)")
	last := strconv.Itoa(fieldReports)
	end := strings.Replace(good, "**1**", "**"+last+"**", 1)
	for _, test := range []struct{ report, last, want string }{
		{good, end, ""},
		{one("it hangs (x #1)", "by construction: there is no lock"), end, ""},
		{one("it hangs (x #1)", "by construction: no lock; `TestZ` (a_test.go)"), end, "1: there is no test TestZ in a_test.go"},
		{one("it hangs (x #1)", "by construction:"), end, "1: neither a test nor a reason"},
		{one("it hangs (x #1)", ""), end, "1: neither a test nor a reason"},
		{one("it hangs (x #1)", "TestX (a_test.go)"), end, "1: neither a test nor a reason"},
		{one("it hangs (x #1)", "`TestX`"), end, "1: TestX names no file"},
		{one("it hangs (x #1)", "`TestX`; `TestY` (a_test.go)"), end, "1: TestX names no file"},
		{one("it hangs (x #1)", "`TestX` (a_test.go), `TestY`"), end, "1: TestY names no file"},
		{one("it hangs (x #1)", "`TestY` (b/b_test.go)"), end, "1: there is no test TestY in b/b_test.go"},
		{one("it hangs (x #1)", "`TestY`, `TestX` (b/b_test.go)"), end, "1: there is no test TestY in b/b_test.go"},
		{one("it hangs", "`TestX` (a_test.go)"), end, "1: it names no thread"},
		{"- **1** it hangs (x #1)\n  - *rejoin:*\n  - *tests:* `TestX` (a_test.go)", end, "1: it does not say what rejoin does"},
		{"- **1** it hangs (x #1)\n  - *tests:* `TestX` (a_test.go)", end, "1: it does not say what rejoin does"},
		{"- **1** it hangs (x #1)\n  - *rejoin:* it does not", end, "1: neither a test nor a reason"},
		{good + "\n  - *more:* of it", end, "1: \"more\" is neither rejoin nor tests"},
		{strings.Replace(good, "**1**", "**x**", 1), end, "\"x\" is not a number; 1 is missing"},
		{strings.Replace(good, "**1** ", "", 1), end, "\"\" is not a number; 1 is missing"},
		{strings.Replace(good, "**1**", "**2**", 1), end, "2 comes twice; 1 is missing"},
		{good, "", last + " is missing"},
		{good, end + "\n- **" + strconv.Itoa(fieldReports+1) + "** more (x #1)", strconv.Itoa(fieldReports+1) + " is not a report"},
	} {
		require.Equal(t, test.want, strings.Join(faultsOfReports(whole(test.report, test.last), files), "; "), "%s\n%s", test.report, test.last)
	}
}

var (
	aNumber  = regexp.MustCompile(`^\*\*(\w+)\*\* `)
	someTest = regexp.MustCompile("((?:`(?:Test|Fuzz)\\w+`(?:, )?)+)(?: \\(([^)]*)\\))?") // several of the same files, and these
	aThread  = regexp.MustCompile(`\([^)]*#[0-9]+[^)]*\)|\(found (here|with [^)]+|by [^)]+)\)`)
	aReason  = regexp.MustCompile(`^by construction: \S`)
)

// faultsOfReports says what is wrong with the list before the second heading.
func faultsOfReports(text string, files map[string]map[string]bool) (faults []string) {
	seen := map[int]bool{}
	for _, r := range itemsOf(text) {
		if strings.HasPrefix(r.heading, "##") {
			continue
		}
		name := ""
		if m := aNumber.FindStringSubmatch(r.text); m != nil {
			name = m[1]
		}
		number, err := strconv.Atoi(name)
		switch {
		case err != nil:
			faults = append(faults, strconv.Quote(name)+" is not a number")
			continue
		case number < 1 || number > fieldReports:
			faults = append(faults, name+" is not a report")
			continue
		case seen[number]:
			faults = append(faults, name+" comes twice")
		}
		seen[number] = true
		for _, fault := range faultsOfReport(r, files) {
			faults = append(faults, name+": "+fault)
		}
	}
	for n := 1; n <= fieldReports; n++ {
		if !seen[n] {
			faults = append(faults, strconv.Itoa(n)+" is missing")
		}
	}
	return faults
}

func faultsOfReport(r *item, files map[string]map[string]bool) (faults []string) {
	if !aThread.MatchString(r.text) {
		faults = append(faults, "it names no thread")
	}
	for _, name := range slices.Sorted(maps.Keys(r.parts)) {
		if name != "rejoin" && name != "tests" {
			faults = append(faults, strconv.Quote(name)+" is neither rejoin nor tests")
		}
	}
	if r.parts["rejoin"] == "" {
		faults = append(faults, "it does not say what rejoin does")
	}
	tests := someTest.FindAllStringSubmatch(r.parts["tests"], -1)
	if len(tests) == 0 && !aReason.MatchString(r.parts["tests"]) {
		faults = append(faults, "neither a test nor a reason")
	}
	for _, m := range tests {
		for _, name := range backquoted.FindAllStringSubmatch(m[1], -1) {
			if m[2] == "" {
				faults = append(faults, name[1]+" names no file")
				continue
			}
			for file := range strings.SplitSeq(m[2], ", ") {
				if !files[name[1]][file] {
					faults = append(faults, "there is no test "+name[1]+" in "+file)
				}
			}
		}
	}
	return faults
}

// testFiles are the files of each test and fuzz target of the repository, in all its modules.
func testFiles(t *testing.T) map[string]map[string]bool {
	t.Helper()
	files := map[string]map[string]bool{}
	for _, path := range filesEndingIn(t, "_test.go") {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
				continue
			}
			if files[f.Name.Name] == nil {
				files[f.Name.Name] = map[string]bool{}
			}
			files[f.Name.Name][path] = true
		}
	}
	return files
}
