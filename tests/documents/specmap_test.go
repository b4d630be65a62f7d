package documents_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests and files in the map of the specification exist, and each clause has a test or a reason why not.
func TestTheSpecMapIsTrue(t *testing.T) {
	text, err := os.ReadFile("docs/spec-map.md")
	require.NoError(t, err)
	check, err := os.ReadFile("conformance/expected.mjs")
	require.NoError(t, err)
	tests := testNames(t)
	clauses, proven := 0, 0
	for _, clause := range itemsOf(string(text)) {
		for _, fault := range faultsOfClause(clause, tests, string(check)) {
			t.Errorf("docs/spec-map.md:%d: %s", clause.line, fault)
		}
		clauses++
		if len(named(clause.parts["tests"])) > 0 {
			proven++
		}
	}
	require.Greater(t, clauses, 70, "the map is whole")
	require.Greater(t, proven, 60)
}

// The map's test can fail.
func TestFaultsOfTheSpecMapAreFound(t *testing.T) {
	tests := map[string]bool{"TestX": true}
	const must = "- 1 \"must\"\n  be (server)\n"
	for text, want := range map[string]string{
		must + "  - *built in:* `get.go`\n  - *tests:* `TestX`\n  - *scenario:* `server-sse-polling`\n": "",
		must + "  - *built in:* `get.go`\n  - *remark:* because\n":                                      "",
		must + "  - *tests:* `TestX`\n":                                                                 "what binds the server is built nowhere, and it does not say why",
		must + "  - *built in:* `get.go`\n":                                                             "neither a test nor a reason",
		must + "  - *built in:* `get.go`\n  - *tests:* `TestX`,\n    `TestY`\n":                         "there is no test TestY",
		must + "  - *built in:* `got.go`\n  - *tests:* `TestX`\n":                                       "there is no file got.go",
		must + "  - *built in:* `get.go`\n  - *tests:* `no-such.txt`\n":                                 "there is no test no-such.txt",
		must + "  - *built in:* `get.go`\n  - *tests:* `TestX`\n  - *scenario:* `no-such`\n":            "conformance/expected.mjs wants no scenario no-such",
		must + "  - *built in:* `get.go`\n  - *tests:* TestX\n":                                         "the tests are not named in backquotes",
		must + "  - *built in:* `get.go`\n  - *tests:* `core/testdata/limits.txt`\n":                    "there is no test core/testdata/limits.txt",
		must + "  - *built in:* `core/get.go`\n  - *tests:* `limits.txt`, `TestX`\n  - *remark:* why\n": "",
		must + "  - *built in:* `get.go`\n  - *tests:* `TestX`\n  - *test:* `TestX`\n":                  "there is no part \"test\"",
		"- \"must\" (nobody)\n  - *built in:* `get.go`\n  - *tests:* `TestX`\n":                         "binds \"nobody\"",
		"- \"must (server)\"\n  - *built in:* `get.go`\n  - *tests:* `TestX`\n":                         "binds \"\"",
		"- must (server)\n  - *built in:* `get.go`\n  - *tests:* `TestX`\n":                             "no clause is quoted",
		"- \"must\" (client)\n  - *remark:* not yet\n":                                                  "",
	} {
		items := itemsOf(text)
		require.Len(t, items, 1, text)
		require.Equal(t, want, strings.Join(faultsOfClause(items[0], tests, "'server-sse-polling': []"), "; "), text)
	}
}

var (
	backquoted = regexp.MustCompile("`([^`]+)`")
	aBinding   = regexp.MustCompile(`\((\w+)\)$`)
)

// named returns the names in a text.
func named(text string) (names []string) {
	for _, m := range backquoted.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// faultsOfClause says what is wrong with an item: "clause" (whom it binds), and where it is built, its tests, a scenario and a remark.
func faultsOfClause(clause *item, tests map[string]bool, scenarios string) (faults []string) {
	files, proofs, why := named(clause.parts["built in"]), named(clause.parts["tests"]), clause.parts["remark"]
	for _, name := range slices.Sorted(maps.Keys(clause.parts)) {
		if !slices.Contains([]string{"built in", "tests", "scenario", "remark"}, name) {
			faults = append(faults, "there is no part "+strconv.Quote(name))
		}
	}
	if !strings.Contains(clause.text, `"`) {
		faults = append(faults, "no clause is quoted")
	}
	binds := ""
	if m := aBinding.FindStringSubmatch(clause.text); m != nil {
		binds = m[1]
	}
	switch binds {
	case "client", "both":
	case "server":
		if len(files) == 0 && why == "" {
			faults = append(faults, "what binds the server is built nowhere, and it does not say why")
		}
	default:
		faults = append(faults, "binds "+strconv.Quote(binds))
	}
	for _, name := range files {
		if !exists(name) {
			faults = append(faults, "there is no file "+name)
		}
	}
	for _, name := range proofs {
		if !tests[name] && (strings.Contains(name, "/") || !strings.HasSuffix(name, ".txt") || !exists("core/testdata/"+name)) {
			faults = append(faults, "there is no test "+name)
		}
	}
	for _, name := range named(clause.parts["scenario"]) {
		if !regexp.MustCompile(`(^|[\s'])` + regexp.QuoteMeta(name) + "[\\s'`]").MatchString(scenarios) {
			faults = append(faults, "conformance/expected.mjs wants no scenario "+name)
		}
	}
	switch {
	case len(proofs) == 0 && clause.parts["tests"] != "":
		faults = append(faults, "the tests are not named in backquotes")
	case len(proofs) == 0 && why == "":
		faults = append(faults, "neither a test nor a reason")
	}
	return faults
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// The tests that ARCHITECTURE.md names for the invariants exist, and each invariant has some.
func TestTheInvariantsAreTested(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Invariants\n")
	section, _, _ = strings.Cut(section, "\n## ")
	tests := testNames(t)
	items := regexp.MustCompile(`(?m)^[0-9]+\. `).Split(section, -1)[1:]
	require.Len(t, items, 13)
	for i, item := range items {
		_, list, _ := strings.Cut(item, "*Tests:*")
		names := backquoted.FindAllStringSubmatch(list, -1)
		require.NotEmpty(t, names, "invariant %d has no test", i+1)
		for _, name := range names {
			require.True(t, tests[name[1]], "invariant %d: there is no test %s", i+1, name[1])
		}
	}
}

// The tests that docs/many-machines.md names for the promises exist, and each promise has some.
func TestThePromisesAreTested(t *testing.T) {
	text, err := os.ReadFile("docs/many-machines.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Promises\n")
	section, _, _ = strings.Cut(section, "\nNot promised:")
	tests := testNames(t)
	rows := strings.Split(strings.TrimSpace(section), "\n| ")[2:]
	require.NotEmpty(t, rows)
	for _, row := range rows {
		promise, list, _ := strings.Cut(row, " | ")
		names := backquoted.FindAllStringSubmatch(list, -1)
		require.NotEmpty(t, names, "no test: %s", promise)
		for _, name := range names {
			require.True(t, tests[name[1]], "%s: there is no test %s", promise, name[1])
		}
	}
}

// testNames are the tests and fuzz targets of the repository, in all its modules.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for name := range testFiles(t) {
		names[name] = true
	}
	return names
}
