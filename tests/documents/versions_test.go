package documents_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files that docs/versions.md names have the versions of the page, and the page lists every version of an SDK, a router or an npm package.
func TestTheVersionsPageIsTrue(t *testing.T) {
	text, err := os.ReadFile("docs/versions.md")
	require.NoError(t, err)
	files := versionFiles(t)
	for _, fault := range faultsOfVersions(string(text), files) {
		t.Error("docs/versions.md: " + fault)
	}
	require.Greater(t, len(files), 10, "files are found")
}

// The check can fail.
func TestFaultsOfTheVersionsPageAreFound(t *testing.T) {
	files := map[string]string{
		"a/go.mod":     "module x\n\ngo 1.25.0\n\nrequire (\n\tgithub.com/gin-gonic/gin v1.2.3\n\texample.com/y v1.0.0\n)\n",
		"package.json": `{"devDependencies": {"@x/y": "2.0.0"}}`,
		"v.go":         `{Name: "2025-11-25"}`,
	}
	const gin, npm, protocol = "| github.com/gin-gonic/gin | v1.2.3 | `a/go.mod` |\n", "| @x/y | 2.0.0 | `package.json` |\n", "| 2025-11-25 | yes | `v.go` |\n"
	for page, want := range map[string]string{
		gin + npm + protocol: "",
		gin + npm + protocol + "| rejoin | 1.25.0 | `a/go.mod` |\n":  "",
		gin + npm + protocol + "| rejoin | 1.26.0 | `a/go.mod` |\n":  "a/go.mod has no rejoin 1.26.0",
		strings.Replace(gin, "v1.2.3", "v1.2.2", 1) + npm + protocol: "a/go.mod has no github.com/gin-gonic/gin v1.2.2; a/go.mod: github.com/gin-gonic/gin v1.2.3 has no row",
		gin + strings.Replace(npm, "2.0.0", "1.0.0", 1) + protocol:   "package.json has no @x/y 1.0.0; package.json: @x/y 2.0.0 has no row",
		npm + protocol: "a/go.mod: github.com/gin-gonic/gin v1.2.3 has no row",
		gin + npm + strings.Replace(protocol, "2025-11-25", "2025", 1): "v.go has no 2025 yes",
		gin + npm + strings.Replace(protocol, "v.go", "w.go", 1):       "there is no file w.go",
		gin + npm + "| 2025-11-25 | yes | v.go |\n":                    "2025-11-25: no file is named",
	} {
		require.Equal(t, want, strings.Join(faultsOfVersions(page, files), "; "), page)
	}
}

// watched matches the requirements of which every version needs a row.
var watched = regexp.MustCompile(`(?m)^(?:require )?\s*(github\.com/(?:modelcontextprotocol/go-sdk|mark3labs/mcp-go|go-chi/chi/v5|labstack/echo/v4|gin-gonic/gin)) (v\S+)$`)

func faultsOfVersions(page string, files map[string]string) (faults []string) {
	named := map[string]bool{} // of each row: file, name, version
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 5 || strings.HasPrefix(line, "|---") || strings.Contains(line, "where it is said") {
			continue
		}
		name, version := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		names := backquoted.FindAllStringSubmatch(cells[len(cells)-2], -1)
		if len(names) == 0 {
			faults = append(faults, name+": no file is named")
		}
		for _, m := range names {
			text, ok := files[m[1]]
			switch {
			case !ok:
				faults = append(faults, "there is no file "+m[1])
			case !fileStates(m[1], text, name, version):
				faults = append(faults, m[1]+" has no "+name+" "+version)
			}
			named[m[1]+": "+name+" "+version] = true
		}
	}
	for _, file := range fileNames(files) {
		text := files[file]
		for _, m := range watched.FindAllStringSubmatch(text, -1) {
			if row := file + ": " + m[1] + " " + m[2]; !named[row] && !strings.HasPrefix(file, "bench/") { // bench requires what it compares with, in other versions
				faults = append(faults, row+" has no row")
			}
		}
		for name, version := range packages(file, text) {
			if row := file + ": " + name + " " + version; !named[row] {
				faults = append(faults, row+" has no row")
			}
		}
	}
	return faults
}

// fileStates reports whether a file contains a version.
func fileStates(file, text, name, version string) bool {
	switch {
	case strings.HasSuffix(file, ".go"): // the versions of the protocol
		return strings.Contains(text, `"`+name+`"`)
	case strings.HasSuffix(file, ".json"):
		return packages(file, text)[name] == version
	case strings.HasSuffix(file, ".md"):
		return strings.Contains(text, name+" ("+version)
	case name == "net/http":
		return true
	case strings.HasPrefix(name, "github.com/"):
		return regexp.MustCompile(`(?m)^(require )?\s*` + regexp.QuoteMeta(name+" "+version) + `$`).MatchString(text)
	}
	return strings.Contains(text, "\ngo "+version+"\n")
}

// packages returns the requirements of a package.json.
func packages(file, text string) map[string]string {
	var manifest struct{ DevDependencies map[string]string }
	if strings.HasSuffix(file, ".json") && json.Unmarshal([]byte(text), &manifest) != nil {
		return nil
	}
	return manifest.DevDependencies
}

// versionFiles returns all .mod files, and the other files that rows may name.
func versionFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	read := func(path string) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		files[path] = string(text)
	}
	for _, path := range []string{"core/version.go", "conformance/package.json", "docs/proxies.md", "docs/replicas.md"} {
		read(path)
	}
	for _, path := range filesEndingIn(t, ".mod") {
		read(path)
	}
	return files
}

func fileNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
