//go:build unix

package scenario

import (
	"context"

	"github.com/rejoin-mcp/rejoin/internal/redistest"
)

// startRedis starts an engine of its own, and returns its address, and what ends it.
func startRedis(ctx context.Context) (addr string, end func() error, err error) {
	s, err := redistest.Start(ctx, redistest.Options{})
	if err != nil {
		return "", nil, err
	}
	return s.Addr(), s.Close, nil
}
