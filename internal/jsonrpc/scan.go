package jsonrpc

import "strconv"

// scanner validates JSON (RFC 8259) from left to right. Its methods return false or a negative index if the body is not JSON; fault then says
// why. A fault of the other kind (CodeInvalid) does not stop it, so that an id after the fault is still found.
type scanner struct {
	b             []byte
	i             int    // the first byte not read yet
	limit         int    // of nesting
	fault         *Error // the fault to report so far
	messageNumber int    // of the current message of a batch, from 1; 0 outside of one
}

// begin skips to the first byte of the body's value.
func (s *scanner) begin() bool {
	if len(s.b) >= 3 && s.b[0] == 0xEF && s.b[1] == 0xBB && s.b[2] == 0xBF {
		s.syntax(0, "no byte order mark")
		return false
	}
	s.i = skipSpace(s.b, 0)
	return true
}

// end checks that only white space is left.
func (s *scanner) end() {
	if s.i = skipSpace(s.b, s.i); s.i < len(s.b) {
		s.syntax(s.i, "nothing after the value")
	}
}

// checkDepth checks the level of an object or array; the outermost has level 1.
func (s *scanner) checkDepth(level int) {
	if level > s.limit {
		s.invalid("nested deeper than " + strconv.Itoa(s.limit))
	}
}

// key reads the next key of an object, up to the first byte of its value. With first, s.i must be the index of '{', else the index after a
// value. The key is returned undecoded and without quotes. ok is false if the object ends here or the body is not JSON.
func (s *scanner) key(first bool) (key []byte, ok bool) {
	var i int
	if first {
		if i = skipSpace(s.b, s.i+1); i < len(s.b) && s.b[i] == '}' {
			s.i = i + 1
			return nil, false
		}
	} else {
		i = skipSpace(s.b, s.i)
		switch {
		case i < len(s.b) && s.b[i] == '}':
			s.i = i + 1
			return nil, false
		case i < len(s.b) && s.b[i] == ',':
			i = skipSpace(s.b, i+1)
		default:
			s.syntax(i, "',' or '}'")
			return nil, false
		}
	}
	end, next := s.name(i)
	if next < 0 {
		return nil, false
	}
	s.i = next
	return s.b[i+1 : end], true
}

// name reads the key at i and the colon. It returns the index of the key's last quote and that of the value.
func (s *scanner) name(i int) (end, next int) {
	if i >= len(s.b) || s.b[i] != '"' {
		s.syntax(i, "a key")
		return 0, -1
	}
	if i = s.str(i + 1); i < 0 {
		return 0, -1
	}
	end = i - 1
	if i = skipSpace(s.b, i); i >= len(s.b) || s.b[i] != ':' {
		s.syntax(i, "':'")
		return 0, -1
	}
	return end, skipSpace(s.b, i+1)
}

// value reads the value at s.i and moves s.i to the byte after it. outer is how many objects and arrays the value lies in.
func (s *scanner) value(outer int) bool {
	b, i := s.b, s.i
	// The objects and arrays around i, one bit each, set for objects. The innermost 64 are in inner, the others in outerLevels.
	var (
		levels      int
		inner       uint64
		buf         [3]uint64
		outerLevels = buf[:0]
	)
	for {
		// A value must begin at i.
		if i >= len(b) {
			s.syntax(i, "a value")
			return false
		}
		switch c := b[i]; c {
		case '"':
			i = s.str(i + 1)
		case '{', '[':
			if levels > 0 && levels&63 == 0 {
				outerLevels = append(outerLevels, inner)
			}
			levels++
			s.checkDepth(outer + levels)
			inner <<= 1
			i = skipSpace(b, i+1)
			if c == '{' {
				inner |= 1
				if i >= len(b) || b[i] != '}' {
					if _, i = s.name(i); i < 0 {
						return false
					}
					continue
				}
			} else if i >= len(b) || b[i] != ']' {
				continue
			}
			// The object or array is empty. Its end is read below.
		case 't':
			i = s.literal(i, "true")
		case 'f':
			i = s.literal(i, "false")
		case 'n':
			i = s.literal(i, "null")
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			i = s.number(i)
		default:
			s.syntax(i, "a value")
			return false
		}
		if i < 0 {
			return false
		}

		// A value ended before i. Any number of objects and arrays may end with it.
		for {
			if levels == 0 {
				s.i = i
				return true
			}
			if i = skipSpace(b, i); i >= len(b) {
				s.syntax(i, "',' or an end")
				return false
			}
			c, object := b[i], inner&1 != 0
			if c == ',' {
				i = skipSpace(b, i+1)
				if object {
					if _, i = s.name(i); i < 0 {
						return false
					}
				}
				break
			}
			if object && c != '}' {
				s.syntax(i, "',' or '}'")
				return false
			}
			if !object && c != ']' {
				s.syntax(i, "',' or ']'")
				return false
			}
			i++
			levels--
			inner >>= 1
			if levels > 0 && levels&63 == 0 {
				inner = outerLevels[len(outerLevels)-1]
				outerLevels = outerLevels[:len(outerLevels)-1]
			}
		}
	}
}
