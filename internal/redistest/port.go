//go:build unix

package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below those that Linux and most other systems give to outgoing connections.
const firstPort, lastPort = 10_000, 32_000

// freePort returns a port on which a process could listen a moment ago.
func freePort() (int, error) {
	var last error
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		lis, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, lis.Close()
		}
		last = err
	}
	return 0, errors.Join(errors.New("redistest: no port is free"), last)
}
