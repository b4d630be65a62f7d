// Package demo is what the examples have in common, none of it about routers or SDKs: users, an MCP server with one slow tool,
// what an admin sees, and how to serve.
package demo
