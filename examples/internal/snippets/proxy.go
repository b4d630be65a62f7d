package snippets

import (
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// BehindNginx is a configuration for a server behind nginx with a limit of 60 s.
func BehindNginx() rejoin.Config {
	return rejoin.Config{
		AllowedHosts: []string{"mcp.example.com"}, // where the server listens on a loopback address
		Policy:       rejoin.Policy{CloseAfter: 48 * time.Second},
	}
}
