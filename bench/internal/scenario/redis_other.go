//go:build !unix

package scenario

import (
	"context"
	"errors"
)

func startRedis(context.Context) (addr string, end func() error, err error) {
	return "", nil, errors.New("redis-server is started on Unix only")
}
