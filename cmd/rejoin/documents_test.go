package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// shell are the blocks of commands in a document.
func shell(t *testing.T, document string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// What the README has a reader type, word by word but for the address, the number of steps and the wait: the client is killed as soon as there is
// something to come back for.
func TestTheReadmesExample(t *testing.T) {
	var commands string
	for _, block := range shell(t, "README.md") {
		if strings.Contains(block, "bin/rejoin resume") {
			commands = block
		}
	}
	serving, calling, ok := strings.Cut(commands, "\n\n")
	require.True(t, ok, "two terminals")
	dir := t.TempDir()
	replace(t, &serving, "go run ./examples/quickstart", filepath.Join(dir, "quickstart"))
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir, "./examples/quickstart")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	server := run(t, exec.Command("bash", "-ec", "exec "+strings.ReplaceAll(serving, " # ", " -addr 127.0.0.1:0 # ")))
	server.stdout.await(t, "Ctrl-C ends it")
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`).FindString(server.stdout.String())

	replace(t, &calling, "http://127.0.0.1:8080/mcp", url)
	replace(t, &calling, "steps=60", "steps=5")
	replace(t, &calling, "sleep 3", "until [ -e job.token ]; do sleep 0.01; done")
	replace(t, &calling, "go build -o bin/ ./cmd/rejoin\n", "")
	script := exec.Command("bash", "-ec", strings.ReplaceAll(strings.ReplaceAll(calling, "bin/rejoin", binary), "job.token", filepath.Join(dir, "job.token")))
	client := run(t, script)
	require.Equal(t, 0, client.exit())
	require.Equal(t, "5 steps done\n", client.stdout.String())
	require.Contains(t, client.stderr.String(), "progress 5 of 5\n", "the call is a task")
}

func replace(t *testing.T, text *string, what, by string) {
	t.Helper()
	require.Contains(t, *text, what)
	*text = strings.Replace(*text, what, by, 1)
}

// The command lines of the documents have flags that there are.
func TestTheDocumentsNameFlagsThatExist(t *testing.T) {
	found := 0
	for _, name := range []string{"README.md", "docs/client.md", "CONTRIBUTING.md", "CHANGELOG.md", "cmd/rejoin/doc.go"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		help := start(t, "call", "--help")
		require.Equal(t, 0, help.exit())
		for _, line := range regexp.MustCompile("(?m)(?:rejoin|//|`)[^`\n]*?(--[a-z-]+)").FindAllStringSubmatch(string(text), -1) {
			require.Contains(t, help.stdout.String(), line[1]+" ", "%s", name)
			found++
		}
	}
	require.Greater(t, found, 15, "flags are found")
}
