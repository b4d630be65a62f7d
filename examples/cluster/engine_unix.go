//go:build unix

package main

import (
	"context"
	"fmt"

	"github.com/rejoin-mcp/rejoin/internal/redistest"
)

// startEngine starts a redis-server. close ends it, and removes its files.
func startEngine(ctx context.Context) (address string, closeIt func() error, err error) {
	s, err := redistest.Start(ctx, redistest.Options{})
	if err != nil {
		return "", nil, fmt.Errorf("%w; or say with -redis host:port where one runs: docker run --rm -p 6379:6379 valkey/valkey:8", err)
	}
	return s.Addr(), s.Close, nil
}
