package jsonrpc

import (
	"unicode/utf16"
	"unicode/utf8"
)

// longestEscape is the largest number of bytes that a JSON string uses for one byte of text: \u0041.
const longestEscape = 6

// Unquote decodes a JSON string, which includes its quotes and has nothing around them. Invalid UTF-8 and lone surrogates become U+FFFD, as
// in encoding/json. It returns false if raw is not a JSON string.
func Unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	if skipPlain(raw, 0) == len(raw) {
		return string(raw), true
	}
	text, ok := appendDecoded(make([]byte, 0, len(raw)), raw)
	if !ok {
		return "", false
	}
	return string(text), true
}

// appendDecoded decodes the text between a JSON string's quotes. It returns false if that is not valid.
func appendDecoded(dst, raw []byte) ([]byte, bool) {
	for i := 0; i < len(raw); {
		j := skipPlain(raw, i)
		dst = append(dst, raw[i:j]...)
		if i = j; i == len(raw) {
			break
		}
		var r rune
		var n int
		switch c := raw[i]; {
		case c >= utf8.RuneSelf:
			r, n = utf8.DecodeRune(raw[i:])
		case c == '\\':
			r, n = decodeRune(raw[i:])
		}
		if n == 0 {
			return dst, false
		}
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return dst, true
}

// decodeRune decodes the escape that b begins with, or two that are a surrogate pair. They have n bytes; 0: b does not begin with an escape.
func decodeRune(b []byte) (r rune, n int) {
	r, n = decodeEscape(b)
	if n == 0 || !utf16.IsSurrogate(r) {
		return r, n
	}
	if low := b[n:]; len(low) > 0 && low[0] == '\\' {
		second, m := decodeEscape(low)
		if pair := utf16.DecodeRune(r, second); pair != utf8.RuneError {
			return pair, n + m
		}
	}
	return utf8.RuneError, n
}

// AppendString appends s as a JSON string: as encoding/json writes it without HTML escapes, with U+0085 escaped as well. So the string never
// contains a line break, not even one of Unicode, and it is valid UTF-8 whatever s is.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0 // s[:from] has been written
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\b':
				dst = append(dst, `\b`...)
			case '\f':
				dst = append(dst, `\f`...)
			case '\n':
				dst = append(dst, `\n`...)
			case '\r':
				dst = append(dst, `\r`...)
			case '\t':
				dst = append(dst, `\t`...)
			default:
				dst = append(dst, `\u00`...)
				dst = append(dst, hex[c>>4], hex[c&15])
			}
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		var out string
		switch {
		case r == utf8.RuneError && n == 1:
			out = `\ufffd`
		case r == '\u0085': // a line break to Java and Python
			out = `\u0085`
		case r == '\u2028': // a line break to JavaScript before 2019
			out = `\u2028`
		case r == '\u2029':
			out = `\u2029`
		}
		if out != "" {
			dst = append(dst, s[from:i]...)
			dst = append(dst, out...)
			from = i + n
		}
		i += n
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
