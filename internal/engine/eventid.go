package engine

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin/core"
)

// An event id is `<stream>.<sequence>[.<nonce>]`: the stream as 22 characters of base64url (128 random bits, so that it cannot
// be guessed), the sequence in decimal, and for primers a nonce in base 36. Clients must not look inside; this file is the only
// place of the server that does.

const streamNameLen = 22

func appendStreamName(dst []byte, id core.StreamID) []byte {
	return base64.RawURLEncoding.AppendEncode(dst, id[:])
}

func appendEventID(dst []byte, id core.StreamID, seq uint64) []byte {
	dst = append(appendStreamName(dst, id), '.')
	return strconv.AppendUint(dst, seq, 10)
}

func appendPrimerID(dst []byte, id core.StreamID, seq, nonce uint64) []byte {
	return strconv.AppendUint(append(appendEventID(dst, id, seq), '.'), nonce, 36)
}

// ParseEventID reads a cursor. It accepts only what the append functions write, to the letter: two spellings of one cursor
// would be two cursors to whoever compares them.
func ParseEventID(s string) (id core.StreamID, seq uint64, ok bool) {
	if len(s) < streamNameLen+2 || len(s) > streamNameLen+36 || s[streamNameLen] != '.' {
		return id, 0, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(id[:], []byte(s[:streamNameLen]))
	if err != nil || n != len(id) {
		return id, 0, false
	}
	number, nonce, primer := strings.Cut(s[streamNameLen+1:], ".")
	seq, ok = parseUint(number, 10)
	if ok && primer {
		_, ok = parseUint(nonce, 36)
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
