package snippets

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/redisstore"
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

// Redis makes a server that shares its sessions through Redis or Valkey. self is the URL at which the other processes reach this one.
func Redis(app rejoin.App, self string) (*rejoin.Server, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:      []string{"redis:6379"},
		ConnWriteTimeout: 2 * time.Second, // how soon an engine that hangs is noticed
		DisableCache:     true,            // client-side caching is not used
	})
	if err != nil {
		return nil, err
	}
	store, err := redisstore.New(redisstore.Config{Client: client})
	if err != nil {
		return nil, err
	}
	return rejoin.NewServer(app, rejoin.Config{
		Store:   store,
		Cluster: &rejoin.Cluster{Name: "reports", Self: self},
	})
}
