package documents_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/rejoin-mcp/rejoin"

// others are the packages that adapters, and the kit of these tests, may also import.
var others = map[string]string{
	"/adapters/chi":       "github.com/go-chi/chi/v5",
	"/adapters/echo":      "github.com/labstack/echo/v4",
	"/adapters/gin":       "github.com/gin-gonic/gin",
	"/tests/internal/kit": "github.com/stretchr/testify/",
}

// Packages import only what the table in ARCHITECTURE.md allows.
func TestImports(t *testing.T) {
	allowed := map[string][]string{
		"/core":                     nil,
		"/internal/jsonrpc":         nil,
		"/internal/sse":             nil,
		"/internal/pipe":            nil,
		"/internal/safe":            nil,
		"/internal/stack":           nil,
		"/internal/lazy":            nil,
		"/internal/weakmap":         nil,
		"/internal/redistest":       nil,
		"/internal/door":            nil,
		"/internal/respond":         {"/internal/door", "/internal/jsonrpc", "/internal/safe", "/internal/sse", "/internal/stack"},
		"/internal/engine":          {"/core", "/eventstore", "/internal/jsonrpc", "/internal/respond", "/internal/safe", "/internal/sse"},
		"/internal/member":          {"/cluster", "/eventstore", "/internal/safe"},
		"/internal/hop":             {"/cluster", "/internal/respond", "/internal/safe"},
		"/internal/rawhttp":         {"", "/adapters/stdlib", "/internal/jsonrpc", "/internal/pipe", "/internal/sse"},
		"/bridge/internal/crossing": {""}, "/bridge/internal/longcalls": {"", "/internal/sse", "/rejointest"},
		"/bridge/internal/adoptions": {
			"", "/adapters/stdlib", "/bridge/internal/crossing", "/cluster", "/cluster/clustertest", "/eventstore", "/internal/pipe", "/rejointest",
		},
		"/eventstore":           {"/internal/weakmap"},
		"/eventstore/storetest": {"/eventstore"},
		"/cluster":              {"/eventstore"},
		"/cluster/clustertest":  {"/cluster", "/eventstore"},
		"": {
			"/cluster", "/core", "/eventstore", "/internal/door", "/internal/engine", "/internal/hop", "/internal/jsonrpc", "/internal/lazy", "/internal/member",
			"/internal/respond", "/internal/safe", "/internal/sse", "/internal/stack",
		},
		"/adapters/stdlib":           {""},
		"/adapters/internal/mounted": {"", "/adapters/internal/pair", "/rejointest"},
		"/adapters/internal/pair":    {"", "/cluster", "/eventstore", "/internal/pipe", "/rejointest"},
		"/adapters/chi":              {""},
		"/adapters/echo":             {""},
		"/adapters/gin":              {""},
		"/adapters/adaptertest":      {"", "/adapters/internal/pair", "/rejointest", "/internal/sse"},
		"/bridge/internal/bounds":    {"/internal/jsonrpc"},
		"/bridge/internal/faithful":  {"/internal/jsonrpc"},
		"/client":                    {"", "/internal/jsonrpc", "/internal/sse"},
		"/tests/internal/kit":        {"", "/adapters/stdlib", "/cluster", "/eventstore", "/eventstore/storetest", "/internal/pipe", "/internal/rawhttp", "/rejointest"},
		"/rejointest":                {"", "/cluster", "/cluster/clustertest", "/core", "/internal/jsonrpc", "/internal/pipe", "/internal/sse", "/eventstore", "/adapters/stdlib"},
	}
	out, err := exec.Command("go", "list", "-f", `{{if .GoFiles}}{{.ImportPath}} {{join .Imports " "}}{{end}}`, "./...").Output()
	require.NoError(t, err, "the go command is needed")
	seen := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		mine, known := allowed[pkg]
		require.True(t, known, "package %q is not in the table: say what it may import", fields[0])
		seen++
		for _, imported := range fields[1:] {
			if path, ours := strings.CutPrefix(imported, module); ours {
				require.Contains(t, mine, path, "%s must not import %s", fields[0], imported)
				continue
			}
			first, _, _ := strings.Cut(imported, "/")
			if other, ok := others[pkg]; ok && strings.HasPrefix(imported, other) {
				continue
			}
			require.NotContains(t, first, ".", "%s must use the standard library only, not %s", fields[0], imported)
		}
	}
	require.Len(t, allowed, seen, "a package of the table is gone")
}
