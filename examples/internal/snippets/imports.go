package snippets

import (
	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib" // net/http; or your router's, see below
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
)

// Bridged are what a bridged server is made of.
var Bridged = []any{rejoin.NewServer, stdadapter.Register, gosdk.New}
