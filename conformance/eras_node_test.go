//go:build node

package conformance_test

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// nodeChoosers are the clients of the table that run in node. Each change is tested with the first few.
func nodeChoosers() (first, others []chooser) {
	first = []chooser{
		{name: "@modelcontextprotocol/client 2.4.0, `auto`", connect: inNode(node("eras", "auto"))},
		{name: "@modelcontextprotocol/client 2.4.0, with the extension", tasks: true, connect: inNode(node("eras", "tasks"))},
		{name: "@modelcontextprotocol/client 2.4.0, pinned", connect: inNode(node("eras", "pinned"))},
		{name: "@modelcontextprotocol/client 2.4.0, `prior`", connect: inNode(node("eras", "prior"))},
		{name: "@ai-sdk/mcp 2.0.99", connect: inNode(node("ai-sdk", "ai-sdk-2.0.99"))},
	}
	return first, []chooser{
		{name: "@modelcontextprotocol/client 2.4.0, default", connect: inNode(node("client", "default"))},
		{name: "@openai/agents 0.20.0", connect: inNode(node("openai"))},
		{name: "@mastra/mcp 2.0.0", connect: inNode(node("mastra"))},
		{name: "@langchain/mcp-adapters 1.1.4", connect: inNode(node("langchain"))},
		{name: "mcp-remote 0.15.1", connect: inNode(node("mcp-remote"))},
		{name: "@modelcontextprotocol/inspector 2.12.0 --cli, `legacy`", connect: inNode(node("inspector", "legacy"))},
	}
}

// inNode connects with a program.
func inNode(command func(*testing.T) []string) func(*testing.T, string) (func(string) error, error) {
	return func(t *testing.T, url string) (func(string) error, error) {
		t.Helper()
		e := &encounter{peer: peer{changed: make(chan struct{})}, exited: make(chan struct{})}
		e.start(t, append(slices.Clip(command(t)), url))
		t.Cleanup(e.kill)
		if e.until(toConnect, func() bool { return e.over || e.says("connected") }); !e.locked(func() bool { return e.says("connected") }) {
			return nil, errors.New(e.complaint("it is not connected"))
		}
		return func(tool string) error {
			if _, err := fmt.Fprintln(e.stdin, "call "+tool); err != nil {
				return err
			}
			has := func(kind string) bool {
				return slices.ContainsFunc(e.seen, func(l line) bool { return l.Kind == kind && l.Of == tool })
			}
			if !e.until(patience, func() bool { return e.over || has("result") || has("error") }) || !e.locked(func() bool { return has("result") }) {
				return errors.New(e.complaint("there is no result"))
			}
			return nil
		}, nil
	}
}

// On a busy machine some clients give up after time-outs of their own, so a client that does not do what the document says runs once more.
func TestClientsChooseAnEra(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"clients/node"}} {
		out, err := exec.CommandContext(t.Context(), "./install", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	servers := []func(tools) rejoin.App{bridgedGoSDK, bridgedMCPGo, listedApp}
	met, others := nodeChoosers()
	if *few {
		servers = servers[:1]
	} else {
		met = append(met, others...)
	}
	for _, c := range met {
		t.Run(strings.ReplaceAll(c.name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			row := c.row(t, servers)
			if !documented(t, row) {
				t.Logf("once more, because of %s", row)
				row = c.row(t, servers)
			}
			requireRow(t, row)
		})
	}
}
