package snippets_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// documents are those that users read, all of which may quote code.
func documents(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", ".github/SECURITY.md", "examples/README.md"} {
		names = append(names, filepath.Join(root, name))
	}
	return names
}

var (
	fenced  = regexp.MustCompile("(?ms)^```(go|diff)\n(.*?)^```")
	calls   = regexp.MustCompile("`((?:[a-z]+adapter|chi|r|e|gosdk|mcpgo)\\.[A-Z][^`…]*\\))`")
	example = regexp.MustCompile(`go run \./(examples/[a-z]+)`)
	target  = regexp.MustCompile("`make ([a-z]+)")
	link    = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// The code in the documents compiles: each block is in a Go file of the examples.
func TestTheDocumentsQuoteWhatCompiles(t *testing.T) {
	code := sources(t)
	blocks, quoted := 0, 0
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
			for _, want := range versions(block[1], block[2]) {
				require.True(t, anyContains(code, want), "%s: no Go file of the examples has this, line by line:\n%s", name, want)
				blocks++
			}
		}
		for _, call := range calls.FindAllStringSubmatch(string(text), -1) {
			require.True(t, anyContains(code, call[1]), "%s: no Go file of the examples has %s", name, call[1])
			quoted++
		}
	}
	require.Greater(t, blocks, 6, "blocks are found")
	require.Greater(t, quoted, 6, "calls are found")
}

// The check can fail: a block with a line left out, or with half a line, is not found.
func TestWhatDoesNotCompileIsFound(t *testing.T) {
	code := []string{lines("func f() {\n\ta()\n\n\tb()\n}\n")}
	require.True(t, anyContains(code, lines("a()\nb()")))
	require.False(t, anyContains(code, lines("a()\nc()")))
	require.False(t, anyContains(code, lines("func f() {\nb()")))
	require.False(t, anyContains(code, lines("func f()")))
	require.Equal(t, []string{"\na\nb\n", "\na\nc\n"}, versions("diff", " a\n-b\n+c\n"))
}

// The commands that the documents name exist.
func TestTheDocumentsNameCommandsThatExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	found := 0
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range example.FindAllStringSubmatch(string(text), -1) {
			require.FileExists(t, filepath.Join(root, m[1], "main.go"), name)
			found++
		}
		for _, m := range target.FindAllStringSubmatch(string(text), -1) {
			require.Contains(t, string(makefile), "\n"+m[1]+":", "%s: make %s", name, m[1])
			found++
		}
	}
	require.Greater(t, found, 10, "commands are found")
}

// Links of the documents to files of this repository lead to a file.
func TestTheDocumentsLinkToWhatIsThere(t *testing.T) {
	found := 0
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(name), m[1]))
			require.NoError(t, err, "%s links to %s", name, m[1])
			found++
		}
	}
	require.Greater(t, found, 15, "links are found")
}

// What the README says about the SDKs' own handlers is in docs/comparison.md, whose rows are tested.
func TestTheReadmeComparesAsTheComparisonDoes(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	comparison, err := os.ReadFile(filepath.Join(root, "docs", "comparison.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(readme), "\n## Compared with the SDKs' own handlers\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| ") {
			require.Contains(t, string(comparison), "\n"+line, "the README's row is another one")
			rows++
		}
	}
	require.Greater(t, rows, 5, "rows are found")
}

// versions returns the code to look for: the block, or for a diff the code before and the code after it.
func versions(language, block string) []string {
	if language == "go" {
		return []string{lines(block)}
	}
	var before, after strings.Builder
	for line := range strings.Lines(block) {
		if line[0] != '+' {
			before.WriteString(line[1:])
		}
		if line[0] != '-' {
			after.WriteString(line[1:])
		}
	}
	return []string{lines(before.String()), lines(after.String())}
}

// lines returns text without indentation, alignment and empty lines, with a line break before and after each line.
func lines(text string) string {
	out := "\n"
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			out += line + "\n"
		}
	}
	return out
}

func anyContains(code []string, want string) bool {
	for _, text := range code {
		if strings.Contains(text, want) {
			return true
		}
	}
	return false
}

// sources returns the Go files of the examples, and the test that docs/testing.md quotes, each as lines returns it.
func sources(t *testing.T) (code []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "examples"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") ||
			strings.HasSuffix(path, "_test.go") && d.Name() != "polling_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		code = append(code, lines(string(text)))
		return err
	}))
	return code
}
