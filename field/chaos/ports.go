//go:build unix

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports that stay the same while no process listens there are taken from below those that systems give to outgoing connections.
const firstPort, lastPort = 10_000, 32_000

// listenLow listens on a free port.
func listenLow() (net.Listener, error) {
	var last error
	for range 1000 {
		addr := "127.0.0.1:" + strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort)) //nolint:gosec // any will do
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, errors.Join(errors.New("no port is free"), last)
}

// freeAddr returns an address at which a process could listen a moment ago.
func freeAddr() (string, error) {
	l, err := listenLow()
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
