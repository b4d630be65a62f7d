package documents_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// What the README says to users with a module of their own works in an empty module, word for word: the commands, the server of 20 lines, and
// the servers of both SDKs with the import paths of the README. A client can use each of them.
//
// The test needs the go command, which may download modules, real sockets and processes.
func TestTheReadmeWorksInAnEmptyModule(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	readme := string(text)
	server := section(t, readme, "A server in 20 lines")
	bridges := blocks(section(t, readme, "You already have a server"), "go")
	require.Len(t, bridges, 3, "what to import, and a server of each SDK")
	sdks, err := os.ReadFile("examples/go.mod")
	require.NoError(t, err)
	for name, program := range map[string]struct {
		main, sdk string
		tools     []string
	}{
		"the server of 20 lines": {blocks(server, "go")[0], "", []string{"long_job"}},
		"a server of go-sdk": {`package main

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

` + bridges[0] + `
func main() {
	mux, server := http.NewServeMux(), mcp.NewServer(&mcp.Implementation{Name: "mine", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "mine"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) { return nil, nil, nil })
` + bridges[1] + `	log.Fatal(http.ListenAndServe("127.0.0.1:8080", mux))
}
`, "github.com/modelcontextprotocol/go-sdk", []string{"mine"}},
		"a server of mcp-go": {`package main

import (
	"log"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

` + strings.Replace(bridges[0], "bridge/gosdk", "bridge/mcpgo", 1) + `
func main() {
	mux, mcpServer := http.NewServeMux(), server.NewMCPServer("mine", "1")
	mcpServer.AddTool(mcp.NewTool("mine"), nil)
` + bridges[2] + `	log.Fatal(http.ListenAndServe("127.0.0.1:8080", mux))
}
`, "github.com/mark3labs/mcp-go", []string{"mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			address := freeAddress(t)
			require.Contains(t, program.main, "127.0.0.1:8080")
			main := strings.Replace(program.main, "127.0.0.1:8080", address, 1)
			built := emptyModule(t, readme, main, version(string(sdks), program.sdk))
			require.Equal(t, program.tools, toolsOf(t, built, address))
		})
	}
}

// What a server has, in 20 lines.
func TestTheServerOf20LinesHas20(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, body, _ := strings.Cut(blocks(section(t, string(text), "A server in 20 lines"), "go")[0], "\nfunc main() {\n")
	require.Equal(t, 20, strings.Count(strings.TrimSuffix(body, "}\n"), "\n"))
}

// emptyModule does what the README says under "From your own module" in an empty folder beside the repository, and builds a server there. sdk
// is the SDK that the user's module requires already; "": none.
func emptyModule(t *testing.T, readme, main, sdk string) (program string) {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	beside := t.TempDir()
	require.NoError(t, os.Symlink(root, filepath.Join(beside, "rejoin")))
	commands := blocks(section(t, readme, "From your own module"), "sh")
	require.Len(t, commands, 2, "before and after there is a main.go")
	dir := filepath.Join(beside, "hello")
	sh := func(dir, script string) {
		t.Helper()
		cmd := exec.Command("sh", "-e", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", script, out)
	}
	sh(beside, commands[0])
	if sdk != "" {
		sh(dir, "go mod edit -require="+sdk)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(main), 0o600))
	// go run is not used: the server would outlive it.
	build := strings.Replace(commands[1], "go run .", "go vet .\ngo build -buildvcs=false -o server .", 1)
	require.NotEqual(t, build, commands[1])
	sh(dir, build)
	return filepath.Join(dir, "server")
}

// freeAddress is an address at which no other program listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return ln.Addr().String()
}

// toolsOf runs a server and lists its tools.
func toolsOf(t *testing.T, program, address string) (names []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, program)
	server.Stderr = os.Stderr
	require.NoError(t, server.Start())
	defer func() {
		cancel()
		_ = server.Wait() // it was killed
	}()
	listening(ctx, t, address)
	s, err := client.Connect(ctx, "http://"+address+"/mcp", client.Config{})
	require.NoError(t, err)
	defer s.Close(ctx)
	var answer struct{ Tools []struct{ Name string } }
	require.NoError(t, s.Do(ctx, "tools/list", nil, &answer))
	for _, tool := range answer.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// listening waits until the server accepts connections: it prints nothing when it does.
func listening(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	for ctx.Err() == nil {
		if conn, err := net.Dial("tcp", address); err == nil {
			require.NoError(t, conn.Close())
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the server does not listen")
}

// section returns the text under a heading.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n## "+heading+"\n")
	require.True(t, found, heading)
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// blocks returns the fenced blocks of a language.
func blocks(text, language string) (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// version returns a requirement of a go.mod with its version.
func version(mod, path string) string {
	if path == "" {
		return ""
	}
	m := regexp.MustCompile(`\n\t` + regexp.QuoteMeta(path) + ` (v\S+)`).FindStringSubmatch(mod)
	return path + "@" + m[1]
}
