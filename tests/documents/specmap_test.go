package documents_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The map of the specification names what there is, and each of its rows has a test, or says why not.
func TestTheSpecMapIsTrue(t *testing.T) {
	text, err := os.ReadFile("docs/spec-map.md")
	require.NoError(t, err)
	check, err := os.ReadFile("conformance/expected.mjs")
	require.NoError(t, err)
	tests := testNames(t)
	rows, proven := 0, 0
	for number, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| clause ") {
			continue
		}
		for _, fault := range faultsOfRow(line, tests, string(check)) {
			t.Errorf("docs/spec-map.md:%d: %s", number+1, fault)
		}
		rows++
		if len(named(strings.Split(line, "|"), 4)) > 0 {
			proven++
		}
	}
	require.Greater(t, rows, 70, "the map is whole")
	require.Greater(t, proven, 60)
}

// The map's test can fail.
func TestFaultsOfTheSpecMapAreFound(t *testing.T) {
	tests := map[string]bool{"TestX": true}
	for row, want := range map[string]string{
		"| \"must\" | server | `get.go` | `TestX` | `server-sse-polling` | |":   "",
		"| \"must\" | server | `get.go` | | | because |":                        "",
		"| \"must\" | server | | `TestX` | | |":                                 "what binds the server is built nowhere, and it does not say why",
		"| \"must\" | server | `get.go` | | | |":                                "neither a test nor a reason",
		"| \"must\" | server | `get.go` | `TestY` | | |":                        "there is no test TestY",
		"| \"must\" | server | `got.go` | `TestX` | | |":                        "there is no file got.go",
		"| \"must\" | server | `get.go` | `no-such.txt` | | |":                  "there is no test no-such.txt",
		"| \"must\" | server | `get.go` | `TestX` | `no-such` | |":              "conformance/expected.mjs wants no scenario no-such",
		"| \"must\" | nobody | `get.go` | `TestX` | | |":                        "binds nobody",
		"| must | server | `get.go` | `TestX` | | |":                            "no clause is quoted",
		"| \"must\" | server | `get.go` | `TestX` | |":                          "5 columns, not 6",
		"| \"must\" | server | `get.go` | TestX | | |":                          "the tests are not named in backquotes",
		"| \"must\" | server | `get.go` | `core/testdata/limits.txt` | | |":     "there is no test core/testdata/limits.txt",
		"| \"must\" | client | | | | client package: later |":                   "",
		"| \"must\" | server | `core/get.go` | `limits.txt`, `TestX` | | why |": "",
	} {
		require.Equal(t, want, strings.Join(faultsOfRow(row, tests, "'server-sse-polling': []"), "; "), row)
	}
}

var backquoted = regexp.MustCompile("`([^`]+)`")

// named are the names in a column.
func named(cells []string, column int) (names []string) {
	if column < len(cells) {
		for _, m := range backquoted.FindAllStringSubmatch(cells[column], -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// faultsOfRow says what is wrong with a row: | clause | binds | built in | tests | scenario | why |.
func faultsOfRow(row string, tests map[string]bool, scenarios string) (faults []string) {
	cells := strings.Split(row, "|")
	if len(cells) != 8 {
		return []string{string(rune('0'+len(cells)-2)) + " columns, not 6"}
	}
	files, proofs, why := named(cells, 3), named(cells, 4), strings.TrimSpace(cells[6])
	if !strings.Contains(cells[1], `"`) {
		faults = append(faults, "no clause is quoted")
	}
	switch binds := strings.TrimSpace(cells[2]); binds {
	case "client", "both":
	case "server":
		if len(files) == 0 && why == "" {
			faults = append(faults, "what binds the server is built nowhere, and it does not say why")
		}
	default:
		faults = append(faults, "binds "+binds)
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
	for _, name := range named(cells, 5) {
		if !regexp.MustCompile(`(^|[\s'])` + regexp.QuoteMeta(name) + "[\\s'`]").MatchString(scenarios) {
			faults = append(faults, "conformance/expected.mjs wants no scenario "+name)
		}
	}
	switch {
	case len(proofs) == 0 && strings.TrimSpace(cells[4]) != "":
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

// Each invariant names tests that fail without it.
func TestTheInvariantsAreTested(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Invariants\n")
	section, _, _ = strings.Cut(section, "\n## ")
	tests := testNames(t)
	items := regexp.MustCompile(`(?m)^[0-9]+\. `).Split(section, -1)[1:]
	require.Len(t, items, 9)
	for i, item := range items {
		_, list, _ := strings.Cut(item, "*Tests:*")
		names := backquoted.FindAllStringSubmatch(list, -1)
		require.NotEmpty(t, names, "invariant %d has no test", i+1)
		for _, name := range names {
			require.True(t, tests[name[1]], "invariant %d: there is no test %s", i+1, name[1])
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
