package jsonrpc

import "strconv"

// scanner validates JSON (RFC 8259) from left to right. Its methods return false or a negative index when the body is not JSON;
// the fault then says why. A fault of the other sort (CodeInvalid) does not stop it, so that the id behind it is still found.
type scanner struct {
	b     []byte
	i     int    // the first byte not read yet
	limit int    // of nesting
	part  int    // which message of a batch is being read, from 1; 0 outside of one
	fault *Error // the one to report, so far
}

// begin skips to the first byte of the body's value.
func (s *scanner) begin() bool {
	if len(s.b) >= 3 && s.b[0] == 0xEF && s.b[1] == 0xBB && s.b[2] == 0xBF {
		s.syntax(0, "no byte order mark")
		return false
	}
	s.i = space(s.b, 0)
	return true
}

// end checks that nothing is left but white space.
func (s *scanner) end() {
	if s.i = space(s.b, s.i); s.i < len(s.b) {
		s.syntax(s.i, "nothing after the value")
	}
}

// enter opens an object or array which is nested at the given level, the outermost being 1.
func (s *scanner) enter(level int) {
	if level > s.limit {
		s.invalid("nested deeper than " + strconv.Itoa(s.limit))
	}
}

// key reads the next key of an object, up to the first byte of its value. With first, i is the index of '{', else it is
// behind a value. The key comes undecoded, without quotes. There is none if the object ends here or the body is not JSON.
func (s *scanner) key(first bool) (key []byte, ok bool) {
	var i int
	if first {
		if i = space(s.b, s.i+1); i < len(s.b) && s.b[i] == '}' {
			s.i = i + 1
			return nil, false
		}
	} else {
		i = space(s.b, s.i)
		switch {
		case i < len(s.b) && s.b[i] == '}':
			s.i = i + 1
			return nil, false
		case i < len(s.b) && s.b[i] == ',':
			i = space(s.b, i+1)
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

// name reads the key at i and the colon. It returns the index of the key's closing quote and that of the value.
func (s *scanner) name(i int) (end, next int) {
	if i >= len(s.b) || s.b[i] != '"' {
		s.syntax(i, "a key")
		return 0, -1
	}
	if i = s.str(i + 1); i < 0 {
		return 0, -1
	}
	end = i - 1
	if i = space(s.b, i); i >= len(s.b) || s.b[i] != ':' {
		s.syntax(i, "':'")
		return 0, -1
	}
	return end, space(s.b, i+1)
}

// value reads the value at i, inside of outer objects and arrays, to the byte behind it.
func (s *scanner) value(outer int) bool {
	b, i := s.b, s.i
	// What is open: one bit per level, set for objects. The innermost 64 are in open, those around them in spilled.
	var (
		levels  int
		open    uint64
		store   [3]uint64
		spilled = store[:0]
	)
	for {
		// A value has to begin at i.
		if i >= len(b) {
			s.syntax(i, "a value")
			return false
		}
		switch c := b[i]; c {
		case '"':
			i = s.str(i + 1)
		case '{', '[':
			if levels > 0 && levels&63 == 0 {
				spilled = append(spilled, open)
			}
			levels++
			s.enter(outer + levels)
			open <<= 1
			i = space(b, i+1)
			if c == '{' {
				open |= 1
				if i >= len(b) || b[i] != '}' {
					if _, i = s.name(i); i < 0 {
						return false
					}
					continue
				}
			} else if i >= len(b) || b[i] != ']' {
				continue
			}
			// It is empty. Its end is read below.
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

		// A value ended before i. With it, any number of objects and arrays may.
		for {
			if levels == 0 {
				s.i = i
				return true
			}
			if i = space(b, i); i >= len(b) {
				s.syntax(i, "',' or an end")
				return false
			}
			c, object := b[i], open&1 != 0
			if c == ',' {
				i = space(b, i+1)
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
			open >>= 1
			if levels > 0 && levels&63 == 0 {
				open = spilled[len(spilled)-1]
				spilled = spilled[:len(spilled)-1]
			}
		}
	}
}
