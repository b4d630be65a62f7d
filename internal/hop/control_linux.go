package hop

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7), which package syscall lacks.
const tcpUserTimeout = 18

// unacknowledged returns what limits how long a connection may wait for bytes to be acknowledged. Keep-alives do not tell: the kernel sends none while
// there are such bytes, and gives up after a quarter of an hour.
func unacknowledged(limit time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(limit.Milliseconds())) // an old kernel does without
		})
	}
}
