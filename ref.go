package rejoin

import (
	"strconv"
	"strings"
)

// SessionRef names a session in logs, metrics and admin routes. Unlike a session id it gives no access, so it is not a secret. It is URL-safe.
type SessionRef string

// StreamRef names a stream in the same places. It begins with the SessionRef of its session.
type StreamRef string

// stream returns the name of a stream of the session.
func (r SessionRef) stream(number uint32) StreamRef {
	return StreamRef(string(r) + "-" + strconv.FormatUint(uint64(number), 10))
}

// parts splits the name of a stream. ok is false if it is not such a name.
func (r StreamRef) parts() (session SessionRef, number uint32, ok bool) {
	at := strings.LastIndexByte(string(r), '-')
	if at < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(string(r[at+1:]), 10, 32)
	session, number = SessionRef(r[:at]), uint32(n)
	return session, number, err == nil && session.stream(number) == r
}
