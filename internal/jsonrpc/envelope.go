package jsonrpc

import (
	"bytes"
	"strings"
)

// member is a key of the envelope.
type member uint8

const (
	keyVersion member = iota
	keyID
	keyMethod
	keyParams
	keyResult
	keyError
	keyOther
)

var names = [keyOther]string{"jsonrpc", "id", "method", "params", "result", "error"}

// longestKey is the length of the longest key that is known or differs from a known one only in case: "jsonrpc" with a long s.
const longestKey = 8

// memberOf returns the member for a key without its quotes. If the key differs from the known key only in case, spelling is the decoded key.
func memberOf(raw []byte) (m member, spelling string) {
	if len(raw) > longestEscape*longestKey {
		return keyOther, ""
	}
	var buf [longestEscape * longestKey]byte
	key := raw
	if bytes.IndexByte(raw, '\\') >= 0 {
		key, _ = appendDecoded(buf[:0], raw)
	}
	if len(key) > longestKey {
		return keyOther, ""
	}
	for m := range keyOther {
		if string(key) == names[m] {
			return m, ""
		}
	}
	// Unicode case folding, because encoding/json uses it: a reader in Go takes "paramſ" for "params".
	for m := range keyOther {
		if strings.EqualFold(string(key), names[m]) {
			return m, string(key)
		}
	}
	return keyOther, ""
}

// envelope is what was read of a message so far.
type envelope struct {
	Message
	seen    [keyOther]bool
	idTwice bool
	nullID  []byte // an id of null, which only a Failure may have
}

// message reads the message at s.i. If there is a fault, only the ID of the returned Message is meaningful.
func (s *scanner) message() Message {
	if s.i >= len(s.b) || s.b[s.i] != '{' {
		s.invalid("a message must be an object")
		s.value(0)
		return Message{}
	}
	s.checkDepth(1)
	var e envelope
	start := s.i
	for first := true; ; first = false {
		raw, ok := s.key(first)
		if !ok {
			break
		}
		key, spelling := memberOf(raw)
		switch {
		case spelling != "":
			s.invalid(`key "` + spelling + `" must be written "` + names[key] + `"`)
			key = keyOther
		case key != keyOther && e.seen[key]:
			s.invalid(`duplicate key "` + names[key] + `"`)
			e.idTwice = e.idTwice || key == keyID
		case key != keyOther:
			e.seen[key] = true
		}
		from := s.i
		if !s.value(1) {
			break
		}
		if key != keyOther {
			s.member(&e, key, s.b[from:s.i:s.i])
		}
	}
	if e.idTwice {
		e.ID = nil
	}
	if s.fault == nil {
		e.Raw = s.b[start:s.i:s.i]
		s.classify(&e)
	}
	return e.Message
}

// member checks the value of a known key, and keeps it.
func (s *scanner) member(e *envelope, key member, v []byte) {
	switch key {
	case keyVersion:
		if !isString(v, "2.0") {
			s.invalid(`"jsonrpc" must be "2.0"`)
		}
	case keyID:
		switch c := v[0]; {
		case c == '"':
			e.ID = v
		case c == '-' || '0' <= c && c <= '9':
			// A number at the end of a body may be cut.
			if s.i < len(s.b) && (isSpace(s.b[s.i]) || s.b[s.i] == ',' || s.b[s.i] == '}') {
				e.ID = v
			}
		case c == 'n':
			e.nullID = v
		default:
			s.invalid(`"id" must be a string or a number`)
		}
	case keyMethod:
		if len(v) <= 2 || v[0] != '"' {
			s.invalid(`"method" must be a string that is not empty`)
			return
		}
		e.Method = v[1 : len(v)-1 : len(v)-1]
		if bytes.IndexByte(e.Method, '\\') >= 0 {
			e.Method, _ = appendDecoded(nil, e.Method)
		}
	case keyParams:
		switch v[0] {
		case '{':
			e.Params = v
		case 'n':
			// It counts as absent: some clients write all fields they know.
		case '[':
			s.invalid(`"params" must be an object: positional parameters are not supported`)
		default:
			s.invalid(`"params" must be an object`)
		}
	case keyResult:
		e.Result = v
	case keyError:
		switch v[0] {
		case '{':
			e.Err = v
		case 'n':
			// Beside a result it counts as absent. Alone it is refused in classify.
		default:
			s.invalid(`"error" must be an object`)
		}
	}
}

// classify decides the kind of a message, when all its keys are read.
func (s *scanner) classify(e *envelope) {
	method, result, failure := e.seen[keyMethod], e.seen[keyResult], e.seen[keyError]
	if result && failure && !method { // some libraries write both members, with null for the absent one
		switch {
		case e.Err == nil:
			failure = false
		case string(e.Result) == "null":
			result, e.Result = false, nil
		}
	}
	switch {
	case !e.seen[keyVersion]:
		s.invalid(`key "jsonrpc" is missing`)
	case method && result:
		s.invalid(`"method" and "result" in one message`)
	case method && failure:
		s.invalid(`"method" and "error" in one message`)
	case result && failure:
		s.invalid(`"result" and "error" in one message`)
	case !method && !result && !failure:
		s.invalid(`none of "method", "result" and "error"`)
	case failure && e.Err == nil:
		s.invalid(`"error" must be an object`)
	case !method && !e.seen[keyID]:
		s.invalid(`a response without "id"`)
	case e.nullID != nil && !failure:
		s.invalid(`"id" must not be null`)
	case method && e.seen[keyID]:
		e.Kind = Request
	case method:
		e.Kind = Notification
	case result:
		e.Kind = Result
	default:
		e.Kind = Failure
		if e.nullID != nil {
			e.ID = e.nullID
		}
	}
	if !method {
		e.Params = nil
	}
}
