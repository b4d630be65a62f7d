package documents_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// maxColumns is the length, in characters, that every line of a document stays below.
const maxColumns = 160

// Every line of every document has fewer than maxColumns characters, so that it can be read and compared without a horizontal scroll bar.
func TestTheLinesOfTheDocumentsAreShort(t *testing.T) {
	paths := filesEndingIn(t, ".md")
	require.Greater(t, len(paths), 15, "documents are found")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, fault := range longLines(path, string(text)) {
			t.Error(fault)
		}
	}
}

// The check can fail.
func TestLongLinesOfDocumentsAreFound(t *testing.T) {
	short, long := strings.Repeat("é", maxColumns-1), strings.Repeat("é", maxColumns)
	section := writtenSection[0] + "\n" + long + "\n" + writtenSection[1] + "\n"
	for _, test := range []struct{ path, text, want string }{
		{"a.md", short + "\n" + short, ""},
		{"a.md", short + "\n" + long + "\nx\n" + long + "x", "a.md:2 has 160 columns; a.md:4 has 161 columns"},
		{"a.md", "| " + short + "\n", "a.md:1 has 161 columns"},
		{"docs/clients.md", "| " + short + "\n" + long + "\n", "docs/clients.md:2 has 160 columns"},
		{"README.md", long + "\n" + section + long, "README.md:1 has 160 columns; README.md:5 has 160 columns"},
		{"a.md", section, "a.md:2 has 160 columns"},
	} {
		require.Equal(t, test.want, strings.Join(longLines(test.path, test.text), "; "), test.text)
	}
}

// writtenPages are the documents that programs write. The rows of their tables are data, and may have any length.
var writtenPages = map[string]bool{"docs/clients.md": true, "docs/performance.md": true}

// writtenSection is the first and the last line of the part of the README that a program writes. Its lines may have any length.
var writtenSection = [2]string{"<!-- performance: written by make bench -->", "<!-- performance: end -->"}

// longLines lists the lines of a document that are too long.
func longLines(path, text string) (faults []string) {
	inSection := false
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		if path == "README.md" && (line == writtenSection[0] || line == writtenSection[1]) {
			inSection = line == writtenSection[0]
		}
		columns := utf8.RuneCountInString(line)
		if columns < maxColumns || inSection || writtenPages[path] && strings.HasPrefix(line, "|") {
			continue
		}
		faults = append(faults, fmt.Sprintf("%s:%d has %d columns", path, number, columns))
	}
	return faults
}

// filesEndingIn are the paths of the repository that end so, in all its modules, with slashes. Folders that git ignores are left out.
func filesEndingIn(t *testing.T, ending string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && (name == "node_modules" || name == "out" || name == "bin" || len(name) > 1 && name[0] == '.' && name != ".github"):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ending):
			paths = append(paths, filepath.ToSlash(path))
		}
		return nil
	}))
	return paths
}
