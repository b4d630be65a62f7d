//go:build unix

package main

import (
	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin/redisstore"
)

// openEngine opens the engine at an address.
func openEngine(addr string) (engineStore, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return redisstore.New(redisstore.Config{Client: client, Prefix: "chaos"})
}
