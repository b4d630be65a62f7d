// Package demo has what the examples share and what is not about routers or SDKs: users, an MCP server with one slow tool, what an
// admin sees, and how to serve.
package demo
