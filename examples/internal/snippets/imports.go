package snippets

import (
	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib" // net/http; or your router's, see below
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
)

// Bridged are the functions that make an app of an SDK's server.
var Bridged = []any{rejoin.NewServer, stdadapter.Register, gosdk.New}
