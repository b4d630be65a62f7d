package snippets

import (
	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Store makes a server whose event store has other limits.
func Store(app rejoin.App) (*rejoin.Server, error) {
	store := eventstore.NewMemory(eventstore.MemoryConfig{
		SessionBytes: 16 << 20,
		TotalBytes:   1 << 30,
	})
	srv, err := rejoin.NewServer(app, rejoin.Config{Store: store})
	return srv, err
}
