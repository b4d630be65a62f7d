package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// isSpace reports whether c is white space in JSON, which has less of it than Unicode or C.
func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// skipSpace returns the index of the first byte from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// str reads a string. i is the index after its first quote; it returns the index after its last one.
func (s *scanner) str(i int) int {
	b := s.b
	for {
		i = skipPlain(b, i)
		if i >= len(b) {
			s.syntax(i, "'\"'")
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			_, n := decodeEscape(b[i:])
			if n == 0 {
				s.syntax(i, "an escape")
				return -1
			}
			i += n
		case c < ' ':
			s.syntax(i, "no control character in a string")
			return -1
		default:
			// Runes that are not ASCII often follow each other.
			for i < len(b) && b[i] >= utf8.RuneSelf {
				r, n := utf8.DecodeRune(b[i:])
				if r == utf8.RuneError && n == 1 {
					s.syntax(i, "UTF-8")
					return -1
				}
				i += n
			}
		}
	}
}

// skipPlain returns the index of the first byte from i on that needs a closer look in a string: a quote, a backslash, a control character, or
// a byte of a rune that is not ASCII. If there is none, it returns len(b).
func skipPlain(b []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		// Eight bytes at once. For each byte that is looked for, its top bit is set in found. The borrow of a subtraction may also set
		// the bit of a later byte, but the first one is right.
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		found := ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash | w) & tops
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// decodeEscape decodes the escape that b begins with. For \u it returns a UTF-16 code unit, which may be half of a pair. The escape has n bytes;
// 0: b does not begin with an escape.
func decodeEscape(b []byte) (u rune, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch c := b[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		if len(b) < 6 {
			return 0, 0
		}
		for _, c := range b[2:6] {
			switch {
			case '0' <= c && c <= '9':
				c -= '0'
			case 'a' <= c && c <= 'f':
				c -= 'a' - 10
			case 'A' <= c && c <= 'F':
				c -= 'A' - 10
			default:
				return 0, 0
			}
			u = u<<4 | rune(c)
		}
		return u, 6
	}
	return 0, 0
}

// literal reads true, false or null.
func (s *scanner) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.b) && string(s.b[i:end]) == word {
		return end
	}
	s.syntax(i, word)
	return -1
}

// number reads a number. The caller checks what follows it: of "01" it reads only the 0.
func (s *scanner) number(i int) int {
	b := s.b
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = s.digits(i); i < 0 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits reads one or more digits.
func (s *scanner) digits(i int) int {
	start := i
	for i < len(s.b) && '0' <= s.b[i] && s.b[i] <= '9' {
		i++
	}
	if i == start {
		s.syntax(i, "a digit")
		return -1
	}
	return i
}
