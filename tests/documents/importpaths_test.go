package documents_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// importPaths are the import paths of packages that documents use, by package name.
var importPaths = map[string]string{
	"rejoin":      module,
	"rejointest":  module + "/rejointest",
	"eventstore":  module + "/eventstore",
	"cluster":     module + "/cluster",
	"client":      module + "/client",
	"redisstore":  module + "/redisstore",
	"stdadapter":  module + "/adapters/stdlib",
	"chiadapter":  module + "/adapters/chi",
	"echoadapter": module + "/adapters/echo",
	"ginadapter":  module + "/adapters/gin",
	"gosdk":       module + "/bridge/gosdk",
	"mcpgo":       module + "/bridge/mcpgo",
}

// A document names the import path of a package before it uses the package for the first time.
func TestTheDocumentsNameImportPaths(t *testing.T) {
	names, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	used := 0
	for _, name := range append(names, "README.md", "examples/README.md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		uses, faults := faultsOfImports(string(text))
		used += uses
		for _, fault := range faults {
			t.Error(name + ": " + fault)
		}
	}
	require.Greater(t, used, 15, "uses are found")
}

// The check can fail.
func TestFaultsOfImportPathsAreFound(t *testing.T) {
	const path = "`" + module + "/bridge/gosdk`\n"
	for text, want := range map[string]string{
		"```go\ngosdk.New(server)\n```\n" + path:                     "gosdk is used before its import path",
		path + "```go\ngosdk.New(server)\n```\n":                     "",
		"```go\nimport \"" + module + "\"\nrejoin.NewApp(x)\n```\n":  "",
		"```diff\n+rejoin.NewApp(x)\n```\n" + path:                   "rejoin is used before its import path",
		"```go\nrejoin.NewApp(gosdk.New(server))\n```\n":             "gosdk is used before its import path; rejoin is used before its import path",
		"```sh\ngosdk.New\n```\nand gosdk.New":                       "",
		"```go\nother.gosdk.New(x)\nmygosdk.New(x)\ngosdk.x()\n```":  "",
		"`" + module + "/bridge/gosdk`\n```go\nrejoin.NewApp()\n```": "rejoin is used before its import path",
	} {
		_, faults := faultsOfImports(text)
		require.Equal(t, want, strings.Join(faults, "; "), text)
	}
}

var codeBlock = regexp.MustCompile("(?ms)^```(?:go|diff)\n.*?^```")

// faultsOfImports checks the blocks of Go code of a document. It also returns how many packages they use.
func faultsOfImports(text string) (used int, faults []string) {
	for _, name := range fileNames(importPaths) {
		use := regexp.MustCompile(`(?:^|[^.\w])` + name + `\.[A-Z]`)
		path := regexp.MustCompile(regexp.QuoteMeta(importPaths[name]) + "[\"`]")
		for _, at := range codeBlock.FindAllStringIndex(text, -1) {
			if !use.MatchString(text[at[0]:at[1]]) {
				continue
			}
			used++
			if !path.MatchString(text[:at[1]]) {
				faults = append(faults, name+" is used before its import path")
			}
			break
		}
	}
	return used, faults
}
