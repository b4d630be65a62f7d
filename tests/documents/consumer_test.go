package documents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The root module requires three routers, but a user of one router does not get the others: module graph pruning keeps them out of the user's
// go.sum and build.
func TestAConsumerOfOneRouterDoesNotFeelTheOthers(t *testing.T) {
	root, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/consumer\n\ngo 1.26.0\n\nreplace "+module+" => "+root+"\n\nrequire (\n\t"+
		module+" v0.0.0\n\tgithub.com/go-chi/chi/v5 v5.5.0\n)\n")
	write("main.go", `package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"`+module+`"
	chiadapter "`+module+`/adapters/chi"
)

func main() {
	srv, err := rejoin.NewServer(rejoin.NewToolApp(rejoin.Info{}), rejoin.Config{})
	if err != nil {
		panic(err)
	}
	r := chi.NewRouter()
	r.Mount("/mcp", chiadapter.New(srv))
	_ = http.ListenAndServe("127.0.0.1:8080", r)
}
`)
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %s: %s", strings.Join(args, " "), out)
		return string(out)
	}
	run("mod", "tidy")
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	require.NoError(t, err)
	require.Contains(t, string(sum), "go-chi/chi", "the test looks at the right file")
	built := run("list", "-deps", ".")
	require.Contains(t, built, module+"/adapters/chi")
	for _, other := range []string{"labstack/echo", "gin-gonic/gin"} {
		require.NotContains(t, string(sum), other)
		require.NotContains(t, built, other)
	}
}
