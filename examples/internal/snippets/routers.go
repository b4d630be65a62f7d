package snippets

import (
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// Adapters are the adapters' handlers, for each router.
var Adapters = []any{chiadapter.New, echoadapter.New, ginadapter.New, stdadapter.New}
