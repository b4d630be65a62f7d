// Package rejoin serves the MCP Streamable HTTP transport from any Go HTTP router, with SSE polling (SEP-1699) done in full.
package rejoin
