//go:build node

package conformance_test

import (
	"testing"
)

// ours is the name of package client of this repository.
const ours = "package client"

// customer is a widely used client, or ours.
type customer struct {
	name    string
	command func(t *testing.T) []string
	tasks   bool // it knows the extension for tasks
	often   bool // it is one of the few clients that each change is tested with
	named   bool // its clientInfo is set by the application, so it does not identify the client
}

// customers are the clients of the matrix. Those of one package are together, the oldest first.
func customers() []customer {
	return []customer{
		{name: "go-sdk v1.2.0", command: built("gosdk", "v1.2.0.mod"), named: true},
		{name: "go-sdk v1.4.1", command: built("gosdk", "v1.4.1.mod"), named: true},
		{name: "go-sdk v1.6.1", command: built("gosdk", "v1.6.1.mod"), named: true},
		{name: "go-sdk v1.7.0", command: built("gosdk", "go.mod"), named: true},
		{name: "go-sdk v1.8.0", command: built("gosdk", "v1.8.0.mod"), named: true, often: true},
		{name: "go-sdk v1.8.0, declaring tasks", command: built("gosdk", "v1.8.0.mod", "-tasks"), named: true},
		{name: "mcp-go v0.31.0", command: built("mcpgoearly", "go.mod"), named: true, often: true},
		{name: "mcp-go v1.2.1", command: built("mcpgo", "go.mod", "-log"), named: true, often: true},
		{name: "mcp-go v1.2.1, declaring tasks", command: built("mcpgo", "go.mod", "-log", "-tasks"), named: true},
		{name: "mcp-go v1.2.1, listening", command: built("mcpgo", "go.mod", "-log", "-listen"), named: true},
		{name: ours, command: driven, tasks: true, named: true, often: true},
		{name: "@modelcontextprotocol/sdk 1.10.2", command: node("sdk", "sdk-1.10.2"), named: true},
		{name: "@modelcontextprotocol/sdk 1.15.1", command: node("sdk", "sdk-1.15.1"), named: true},
		{name: "@modelcontextprotocol/sdk 1.20.2", command: node("sdk", "sdk-1.20.2"), named: true, often: true},
		{name: "@modelcontextprotocol/sdk 1.24.3", command: node("sdk", "sdk-1.24.3"), named: true},
		{name: "@modelcontextprotocol/sdk 1.32.2", command: node("sdk", "sdk-1.32.2"), named: true, often: true},
		{name: "@modelcontextprotocol/client 2.4.0", command: node("client", "default"), named: true},
		{name: "@modelcontextprotocol/client 2.4.0, both eras", command: node("client", "auto"), named: true},
		{name: "@modelcontextprotocol/client 2.4.0, declaring tasks", command: node("eras", "tasks"), named: true},
		{name: "@modelcontextprotocol/ext-tasks 0.2.2", command: node("ext-tasks", "once"), tasks: true, named: true, often: true},
		{name: "@modelcontextprotocol/ext-tasks 0.2.2, repeating polls", command: node("ext-tasks", "again"), tasks: true, named: true},
		{name: "@ai-sdk/mcp 1.0.47", command: node("ai-sdk", "ai-sdk-1.0.47"), often: true},
		{name: "@ai-sdk/mcp 1.0.102", command: node("ai-sdk", "ai-sdk-1.0.102"), often: true},
		{name: "@ai-sdk/mcp 2.0.99", command: node("ai-sdk", "ai-sdk-2.0.99"), often: true},
		{name: "@langchain/mcp-adapters 1.1.4", command: node("langchain")},
		{name: "@openai/agents 0.20.0", command: node("openai")},
		{name: "@mastra/mcp 2.0.0", command: node("mastra"), named: true},
		{name: "@modelcontextprotocol/inspector 2.12.0 --cli", command: node("inspector", "legacy")},
		{name: "@modelcontextprotocol/inspector 2.12.0 --cli, both eras", command: node("inspector", "auto"), tasks: true},
		{name: "@modelcontextprotocol/inspector 2.12.0 mcpdo, both eras", command: node("mcpdo"), tasks: true},
		{name: "mcp-remote 0.15.1", command: node("mcp-remote")},
	}
}

// built returns the command of a client written in Go, built with the requirements of a .mod file.
func built(folder, mod string, args ...string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		return append([]string{build(t, folder, mod)}, args...)
	}
}

// node returns the command of a program of clients/node.
func node(name string, args ...string) func(*testing.T) []string {
	return func(*testing.T) []string {
		return append([]string{"node_modules/.bin/node", "clients/node/" + name + ".mjs"}, args...)
	}
}
