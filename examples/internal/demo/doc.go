// Package demo is what the router examples have in common, none of it about routers: users, an MCP server with one slow tool, and
// what an admin sees.
package demo
