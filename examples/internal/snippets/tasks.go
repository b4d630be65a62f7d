package snippets

import (
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// InBothEras is a configuration for long calls of clients that poll and of clients that take tasks.
func InBothEras() rejoin.Config {
	return rejoin.Config{
		Policy: rejoin.Policy{CloseAfter: 50 * time.Second}, // disconnects clients that poll; by default tasks begin at 30 s
		Tasks:  rejoin.Tasks{TTL: time.Hour},                // results of tasks are kept for an hour
	}
}
