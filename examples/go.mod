module github.com/rejoin-mcp/rejoin/examples

go 1.25.0

require github.com/rejoin-mcp/rejoin v0.0.0

replace github.com/rejoin-mcp/rejoin => ..
