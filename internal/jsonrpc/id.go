package jsonrpc

import (
	"bytes"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDigits is the length up to which Key writes out an integer: as long as the longest id that a server takes. A longer one keeps its
// exponent, so that a short number like 1e999999999 costs nothing.
const maxDigits = 1 << 10

// IsID reports whether a JSON value can be an id or a progress token: a string or a number.
func IsID(v []byte) bool {
	return len(v) > 0 && (v[0] == '"' || v[0] == '-' || '0' <= v[0] && v[0] <= '9')
}

// Key returns the form of an id that ids are compared by. Two strings, or two numbers, have the same key if and only if they have the same
// value, however they are spelt: "\u0061" is "a", 2.0 is 2, and 1e1 is 10. A string never has the key of a number, and numbers are not rounded.
// An id in its shortest spelling is its own key, without an allocation. So is a number whose exponent has more than 1,024 digits
// without leading zeros. The key
// of a string is only for comparing: it need not be JSON.
//
// id must be a JSON string or number. For any other value the key is the value itself.
func Key(id []byte) []byte {
	switch {
	case !IsID(id):
		return id
	case id[0] == '"':
		return stringKey(id)
	}
	return numberKey(id)
}

// stringKey decodes a string and keeps its quotes. A lone surrogate becomes the three bytes that UTF-8 would use for it, so that two different
// ones stay different.
func stringKey(id []byte) []byte {
	if bytes.IndexByte(id, '\\') < 0 {
		return id
	}
	key := make([]byte, 0, len(id))
	for i := 0; i < len(id); {
		if id[i] != '\\' {
			key = append(key, id[i])
			i++
			continue
		}
		r, n := decodeEscape(id[i:])
		if n == 0 {
			return id // not JSON
		}
		i += n
		if utf16.IsSurrogate(r) {
			low, m := rune(0), 0
			if i < len(id) && id[i] == '\\' {
				low, m = decodeEscape(id[i:])
			}
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				r, i = pair, i+m
			} else {
				key = append(key, 0xE0|byte(r>>12&0x0F), 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
				continue
			}
		}
		key = utf8.AppendRune(key, r)
	}
	return key
}

// numberKey writes a number as an integer. A fraction, or an integer with too many digits, becomes an integer with an exponent.
func numberKey(id []byte) []byte {
	if plain := !bytes.ContainsAny(id, ".eE"); plain && len(id) <= maxDigits && string(id) != "-0" {
		return id
	}
	mantissa, exponent := id, []byte(nil)
	if e := bytes.IndexAny(id, "eE"); e >= 0 {
		mantissa, exponent = id[:e], id[e+1:]
	}
	mantissa, negative := bytes.CutPrefix(mantissa, []byte("-"))
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := bytes.TrimLeft(slices.Concat(whole, fraction), "0")
	shift := -len(fraction)
	if short := bytes.TrimRight(digits, "0"); len(short) < len(digits) {
		shift += len(digits) - len(short)
		digits = short
	}
	if len(digits) == 0 {
		return []byte("0")
	}
	exponent, down := bytes.CutPrefix(bytes.TrimPrefix(exponent, []byte("+")), []byte("-"))
	exponent = bytes.TrimLeft(exponent, "0")
	if len(exponent) > maxDigits {
		return id // no client writes that, and it would take long to read
	}
	power := big.NewInt(int64(shift))
	if e, ok := new(big.Int).SetString(string(exponent), 10); ok {
		if down {
			e.Neg(e)
		}
		power.Add(power, e)
	}
	key := make([]byte, 0, len(id)+24)
	if negative {
		key = append(key, '-')
	}
	key = append(key, digits...)
	if power.IsInt64() && power.Sign() >= 0 && power.Int64() <= maxDigits-int64(len(key)) {
		return append(key, bytes.Repeat([]byte("0"), int(power.Int64()))...)
	}
	return power.Append(append(key, 'e'), 10)
}

// Survives reports whether an id or a progress token keeps its spelling in a library that decodes it into any, a number as a float64 or an
// int64, and encodes it again, with whatever escapes that library uses.
func Survives(id []byte) bool {
	if len(id) == 0 {
		return false
	}
	if id[0] == '"' {
		for _, c := range id[1:max(1, len(id)-1)] {
			if c < ' ' || c >= 0x7f || strings.IndexByte(`"\<>&`, c) >= 0 {
				return false
			}
		}
		return true
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil && -1<<53 <= n && n <= 1<<53 && string(strconv.AppendInt(nil, n, 10)) == string(id)
}
