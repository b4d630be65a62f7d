package jsonrpc

import (
	"bytes"
	"math"
)

// Field returns the value of an object's member as it is written, or of a member of a member and so on along the path. Keys are
// compared after decoding, with regard to case. If an object has a key twice, the last one counts, as with most decoders. An
// empty path means obj itself.
//
// obj must be valid JSON: then there is no value if and only if there is no such member. Of anything else no more is promised
// than that a value found is a part of obj.
func Field(obj []byte, path ...string) ([]byte, bool) {
	from, to, ok := Find(obj, path...)
	if !ok {
		return nil, false
	}
	return obj[from:to:to], true
}

// Find is Field for who wants to put something else in the value's place: obj[from:to] is the value.
func Find(obj []byte, path ...string) (from, to int, ok bool) {
	if len(path) > 0 && !mayHave(obj, path[len(path)-1]) {
		return 0, 0, false
	}
	from, to = space(obj, 0), len(obj)
	for _, name := range path {
		at, end, ok := lastMember(obj[from:to], name)
		if !ok {
			return 0, 0, false
		}
		from, to = from+at, from+end
	}
	return from, to, from < to
}

// mayHave reports whether name can be anywhere in obj: as it is, or with escapes in it. Most messages do not have what is looked for,
// and this is many times faster than to read them.
func mayHave(obj []byte, name string) bool {
	return bytes.Contains(obj, []byte(name)) || bytes.Contains(obj, []byte(`\u`)) || bytes.Contains(obj, []byte(`\/`))
}

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
		if equal(key, name) {
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
	return len(v) >= 2 && v[0] == '"' && equal(v[1:len(v)-1], text)
}

// equal compares what is between a JSON string's quotes with a decoded string.
func equal(raw []byte, text string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == text
	}
	if len(raw) > longestEscape*len(text) {
		return false
	}
	var store [128]byte
	got, ok := appendDecoded(store[:0], raw)
	return ok && string(got) == text
}
