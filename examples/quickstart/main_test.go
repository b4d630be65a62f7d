package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/examples/quickstart/internal/servetest"
	"github.com/rejoin-mcp/rejoin/examples/quickstart/internal/show"
)

// These tests use real sockets, programs and the real clock, because that is what the command promises. They wait for what happens; the
// deadline is that of the test binary.

// A first run of the quickstart downloads only what it uses, and no router.
func TestACommandNeedsItsOwnRouterOnly(t *testing.T) {
	routers := map[string]string{"chi": "github.com/go-chi/chi/v5", "echo": "github.com/labstack/echo/v4", "gin": "github.com/gin-gonic/gin"}
	for _, command := range append([]string{""}, others.Names...) {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", home+command).Output()
		require.NoError(t, err)
		modules := strings.Fields(string(out))
		if command == "" {
			for _, module := range modules {
				require.Regexp(t, `^github.com/rejoin-mcp/rejoin(/examples)?$`, module)
			}
		}
		for name, path := range routers {
			if name == command {
				require.Contains(t, modules, path)
			} else {
				require.NotContains(t, modules, path, "%q", command)
			}
		}
	}
}

func start(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return show.Run(ctx, args, stdout, stderr, mount, others)
}

// On each router the call outlives its connections, in either era.
func TestOnEachRouter(t *testing.T) {
	for _, router := range append([]string{show.Default}, others.Names...) {
		var stdout, stderr bytes.Buffer
		require.Zero(t, start(t.Context(), []string{"-router", router}, &stdout, &stderr), "%s: %s", router, &stderr)
		require.Contains(t, stdout.String(), "11 messages over 4 connections: each came once, in order.", router)
		stdout.Reset()
		require.Zero(t, start(t.Context(), []string{"-router", router, "-era", "modern"}, &stdout, &stderr), "%s: %s", router, &stderr)
		require.Contains(t, stdout.String(), "polls of its task: the last one had the result.", router)
		require.Empty(t, stderr.String(), router)
	}
}

// The program of another router ends in good order when this program has to end, and its exit code is the exit code of this program.
func TestServingOnAnotherRouter(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := servetest.Start(t, func(stdout, stderr io.Writer) int {
		return start(ctx, []string{"-serve", "-router", "chi", "-addr", "127.0.0.1:0"}, stdout, stderr)
	})
	res, err := http.Post(server.URL, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`))
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	cancel()
	require.Contains(t, server.Wait(t), "ending")

	var stderr bytes.Buffer
	require.Equal(t, 1, start(t.Context(), []string{"-serve", "-router", "chi", "-addr", "nowhere"}, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "quickstart: listen tcp")
	over, end := context.WithCancel(t.Context())
	end()
	require.Equal(t, 1, start(over, []string{"-router", "chi"}, io.Discard, &stderr))
}
