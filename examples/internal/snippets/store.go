package snippets

import (
	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Store has other limits than the default one.
func Store(app rejoin.App) (*rejoin.Server, error) {
	store := eventstore.NewMemory(eventstore.MemoryConfig{
		SessionBytes: 16 << 20,
		TotalBytes:   1 << 30,
	})
	srv, err := rejoin.NewServer(app, rejoin.Config{Store: store})
	return srv, err
}
