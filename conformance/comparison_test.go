package conformance_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/comparison.md names each test of the comparison, no test that does not exist, and the versions that were compared.
func TestTheComparisonIsWhatTheTestsSay(t *testing.T) {
	page, err := os.ReadFile("../docs/comparison.md")
	require.NoError(t, err)
	files, err := filepath.Glob("sidebyside_*_test.go")
	require.NoError(t, err)
	var named, there []string
	for _, match := range regexp.MustCompile("`(TestSideBySide\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		named = append(named, match[1])
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(`\nfunc (Test\w+)\(`).FindAllStringSubmatch(string(source), -1) {
			there = append(there, match[1])
		}
	}
	require.Subset(t, named, there)
	require.Subset(t, there, named)
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for sdk, path := range map[string]string{"go-sdk": "github.com/modelcontextprotocol/go-sdk", "mcp-go": "github.com/mark3labs/mcp-go"} {
		version := regexp.MustCompile(regexp.QuoteMeta(path) + ` (v\S+)`).FindStringSubmatch(string(mod))
		require.NotNil(t, version, path)
		require.Equal(t, 2, strings.Count(string(page), sdk+" "+version[1]), "%s: in the text and above its column", sdk)
	}
}
