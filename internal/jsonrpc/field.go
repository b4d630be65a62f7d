package jsonrpc

import (
	"bytes"
	"math"
)

// Field returns the value at a path of keys, as it is written: the value of the first key's member, or of the next key's member in that object,
// and so on. Keys are compared after decoding, and case matters. If an object has a key twice, the last one counts, as in most decoders.
// An empty path means obj itself.
//
// obj must be valid JSON. Then ok is false if and only if there is no such member. If obj is not valid JSON, a returned value is still a
// part of obj, and nothing else is promised.
func Field(obj []byte, path ...string) (value []byte, ok bool) {
	from, to, ok := Find(obj, path...)
	if !ok {
		return nil, false
	}
	return obj[from:to:to], true
}

// Find is like Field and returns where the value is, so that it can be replaced: obj[from:to].
func Find(obj []byte, path ...string) (from, to int, ok bool) {
	if len(path) > 0 && !mayContain(obj, path[len(path)-1]) {
		return 0, 0, false
	}
	from, to = skipSpace(obj, 0), len(obj)
	for _, name := range path {
		at, end, ok := lastMember(obj[from:to], name)
		if !ok {
			return 0, 0, false
		}
		from, to = from+at, from+end
	}
	return from, to, from < to
}

// mayContain reports whether name may occur in obj, plain or with escapes. Most messages do not have the wanted member, and this test is many
// times faster than reading them.
func mayContain(obj []byte, name string) bool {
	var room [64]byte // on the stack: as a conversion, a name of over 32 bytes would be on the heap
	if bytes.Contains(obj, append(room[:0], name...)) {
		return true
	}
	escape := bytes.IndexByte(obj, '\\')
	return escape >= 0 && (bytes.Contains(obj[escape:], []byte(`\u`)) || bytes.Contains(obj[escape:], []byte(`\/`)))
}

// lastMember returns where the value of the last member with that name is.
func lastMember(obj []byte, name string) (at, end int, ok bool) {
	if len(obj) == 0 || obj[0] != '{' {
		return 0, 0, false
	}
	s := scanner{b: obj, limit: math.MaxInt}
	for first := true; ; first = false {
		key, more := s.key(first)
		if !more {
			break
		}
		from := s.i
		if !s.value(1) {
			break
		}
		if equalDecoded(key, name) {
			at, end, ok = from, s.i, true
		}
	}
	if s.fault != nil {
		return 0, 0, false
	}
	return at, end, ok
}

// isString reports whether a JSON value is the given string.
func isString(v []byte, text string) bool {
	return len(v) >= 2 && v[0] == '"' && equalDecoded(v[1:len(v)-1], text)
}

// equalDecoded reports whether raw, the text between a JSON string's quotes, decodes to text.
func equalDecoded(raw []byte, text string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == text
	}
	if len(raw) > longestEscape*len(text) {
		return false
	}
	var buf [128]byte
	got, ok := appendDecoded(buf[:0], raw)
	return ok && string(got) == text
}
