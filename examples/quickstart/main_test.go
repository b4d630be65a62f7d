package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/examples/quickstart/internal/show"
)

// These tests use real sockets, programs and the real clock, because that is what the command promises. They wait for what happens; the
// deadline is that of the test binary.

// The quickstart is for who has not decided yet: a cold run downloads no router, and nothing else that it does not use.
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

// On each router the call outlives its connections.
func TestOnEachRouter(t *testing.T) {
	for _, router := range append([]string{show.Default}, others.Names...) {
		var stdout, stderr bytes.Buffer
		require.Zero(t, start(t.Context(), []string{"-router", router}, &stdout, &stderr), "%s: %s", router, &stderr)
		require.Contains(t, stdout.String(), "11 messages over 4 connections: each came once, in order.", router)
		require.Empty(t, stderr.String(), router)
	}
}

// A program that is run for another router ends in good order when this one is to, and what it returns is what this one returns.
func TestServingOnAnotherRouter(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, stdout := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- start(ctx, []string{"-serve", "-router", "chi", "-addr", "127.0.0.1:0"}, stdout, &stderr)
		stdout.Close()
	}()
	printed := bufio.NewScanner(out)
	url := ""
	for url == "" && printed.Scan() {
		url = strings.TrimSpace(regexp.MustCompile(`^  http://127\.0\.0\.1:\d+/mcp$`).FindString(printed.Text()))
	}
	require.NotEmpty(t, url, "no URL was printed")
	res, err := http.Post(url, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`))
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	cancel()
	var rest strings.Builder
	for printed.Scan() {
		rest.WriteString(printed.Text() + "\n")
	}
	require.Zero(t, <-code, "stderr: %s", &stderr)
	require.Contains(t, rest.String(), "ending")

	require.Equal(t, 1, start(t.Context(), []string{"-serve", "-router", "chi", "-addr", "nowhere"}, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "quickstart: listen tcp")
	over, end := context.WithCancel(t.Context())
	end()
	require.Equal(t, 1, start(over, []string{"-router", "chi"}, io.Discard, &stderr))
}
