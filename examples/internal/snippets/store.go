package snippets

import (
	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
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

// Cluster makes a server that shares its sessions with the other servers of an engine.
func Cluster(app rejoin.App) (*rejoin.Server, error) {
	engine := cluster.NewMemory(eventstore.MemoryConfig{})
	srv, err := rejoin.NewServer(app, rejoin.Config{
		Store:   engine,
		Cluster: &rejoin.Cluster{Name: "reports", Self: "http://10.1.2.3:8080"},
	})
	return srv, err
}
