package engine

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin/core"
)

// An event id is `<stream>.<sequence>[.<nonce>]`: the stream as 22 characters of base64url, the sequence in decimal, and for primers a
// nonce in base 36. Clients must not look inside; this file is the only place of the server that does.
//
// The name of a stream is its id, 8 bytes, and 8 bytes of a hash over the secret id of its session and its own id. So names cannot be guessed, and
// every process can tell a stream that was forgotten from one that this session never had. The first bit of the id says that it is a standalone stream's.

// streamNameLen is the length of a name.
const streamNameLen = 22

// streamName is the name of a stream.
type streamName [streamNameLen]byte

// ofStandalone is the bit of the first byte that ids of standalone streams have.
const ofStandalone = 0x80

// NewStandalone makes the id of a standalone stream.
func NewStandalone() core.StreamID {
	id := newStreamID()
	id[0] |= ofStandalone
	return id
}

// newStreamID makes the id of a request's stream.
func newStreamID() (id core.StreamID) {
	_, _ = rand.Read(id[:]) // it never fails
	id[0] &^= ofStandalone
	return id
}

// IsStandalone reports whether the id of a stream is that of a standalone stream.
func IsStandalone(id core.StreamID) bool { return id[0]&ofStandalone != 0 }

// nameOf returns the name of a stream. It takes a fraction of a microsecond.
func nameOf(session string, id core.StreamID) (name streamName) {
	var raw [16]byte
	copy(raw[:8], id[:])
	check := checkOf(session, id)
	copy(raw[8:], check[:])
	base64.RawURLEncoding.Encode(name[:], raw[:])
	return name
}

// checkOf returns the second half of a name.
func checkOf(session string, id core.StreamID) (check [8]byte) {
	var room [64]byte
	sum := sha256.Sum256(append(append(room[:0], session...), id[:]...))
	copy(check[:], sum[:])
	return check
}

// StreamName returns the name of a stream, which is also that of its log.
func StreamName(session string, id core.StreamID) string {
	name := nameOf(session, id)
	return string(name[:])
}

// ParseStreamName reads what StreamName writes, and nothing else.
func ParseStreamName(session, name string) (id core.StreamID, ok bool) {
	if len(name) != streamNameLen {
		return id, false
	}
	var raw [16]byte
	n, err := base64.RawURLEncoding.Strict().Decode(raw[:], []byte(name))
	if err != nil || n != len(raw) {
		return id, false
	}
	copy(id[:], raw[:])
	if check := checkOf(session, id); string(check[:]) != string(raw[8:]) {
		return core.StreamID{}, false
	}
	return id, true
}

func appendEventID(dst []byte, name *streamName, seq uint64) []byte {
	return strconv.AppendUint(append(append(dst, name[:]...), '.'), seq, 10)
}

func appendPrimerID(dst []byte, name *streamName, seq, nonce uint64) []byte {
	return strconv.AppendUint(append(appendEventID(dst, name, seq), '.'), nonce, 36)
}

// ParseEventID reads a cursor of a session. It accepts only what the append functions write, to the letter: two spellings of one cursor
// would be two cursors to a client that compares them.
func ParseEventID(session, cursor string) (id core.StreamID, seq uint64, ok bool) {
	if len(cursor) < streamNameLen+2 || len(cursor) > streamNameLen+36 || cursor[streamNameLen] != '.' {
		return id, 0, false
	}
	number, nonce, primer := strings.Cut(cursor[streamNameLen+1:], ".")
	seq, ok = parseUint(number, 10)
	if ok && primer {
		_, ok = parseUint(nonce, 36)
	}
	if ok {
		id, ok = ParseStreamName(session, cursor[:streamNameLen])
	}
	return id, seq, ok
}

// parseUint reads what strconv.AppendUint writes, and nothing else: no sign, no leading zero, no upper case.
func parseUint(s string, base int) (uint64, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s, base, 64)
	return n, err == nil
}
