package jsonrpc

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sameIDs are ids in one line that have one value; those of different lines have different ones.
var sameIDs = [][]string{
	{`"a"`, `"\u0061"`},
	{`"A"`, `"\u0041"`},
	{`""`},
	{`"a/b"`, `"a\/b"`, `"\u0061\u002fb"`, `"a\u002Fb"`},
	{`"\""`, `"\u0022"`},
	{`"\\"`, `"\u005c"`},
	{`"\\u0061"`, `"\u005cu0061"`},
	{`"ü"`, `"\u00fc"`, `"\u00FC"`},
	{`"u\u0308"`, "\"u\u0308\""}, // the same picture as the line before, and other text
	{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
	{`"\ud800"`, `"\uD800"`},
	{`"\ud801"`},
	{`"\udc00"`},
	{`"\ude00\ud83d"`},
	{`"\ufffd"`, "\"\ufffd\""},
	{`"\ud83d\u0061"`, `"\ud83da"`},
	{`"\u2028"`, "\"\u2028\""},
	{`"\n"`, `"\u000a"`, `"\u000A"`},
	{`"\u0000"`},
	{`"2"`}, {`"2.0"`}, {`"null"`},
	{"2", "2.0", "2e0", "2E+0", "2e-0", "20e-1", "0.2e1", "0.02e2", "2.000", "200E-2", "2e00000000000000000000000000"},
	{"0", "-0", "0.0", "-0.0e5", "0e999999999", "0e-999999999999999999999999"},
	{"10", "1e1", "1E1", "1e+1", "10.0", "100e-1", "0.1e2"},
	{"-10", "-1e1", "-10.00"},
	{"1.5", "1.50", "15e-1", "150e-2", "0.15e1"},
	{"-1.5", "-15E-1"},
	{"0.15"},
	{"9007199254740992", "9007199254740992.0", "9.007199254740992e15"},
	{"9007199254740993", "9.007199254740993e15"},
	{"9223372036854775807"}, {"9223372036854775808"}, {"18446744073709551615"},
	{"123456789012345678901234567890"}, {"123456789012345678901234567891", "1.23456789012345678901234567891e29"},
	{"1" + strings.Repeat("0", 100), "1e100", "10e99", "0.1e101"},
	{"1" + strings.Repeat("0", 1000), "1e1000"},
	{"1" + strings.Repeat("0", 1022), "1e1022"},
	{"1" + strings.Repeat("0", 1023), "1e1023"},
	{"1" + strings.Repeat("0", 1024), "1e1024", "10e1023"},
	{"-1" + strings.Repeat("0", 1023), "-1e1023"},
	{"1" + strings.Repeat("0", 5000), "1e5000", "0.001e5003"},
	{strings.Repeat("1", 2000), strings.Repeat("1", 2000) + ".0"},
	{"1e999999999", "10e999999998", "0.1e1000000000", "1E+0999999999"},
	{"1e99999999999999999999999999", "10e99999999999999999999999998", "0.01e100000000000000000000000001"},
	{"1e-99999999999999999999999999", "0.1e-99999999999999999999999998"},
	{"1e99999999999999999999999998"},
	{"-1e999999999"},
}

// An id is its value, however it is spelt.
func TestKey(t *testing.T) {
	values := map[string]int{}
	for i, line := range sameIDs {
		for _, id := range line {
			require.True(t, IsID([]byte(id)), id)
			key := string(Key([]byte(id)))
			if at, ok := values[key]; ok {
				require.Equal(t, i, at, "%.60s has the key of another value, %.60s", id, key)
			}
			values[key] = i
		}
	}
	require.Len(t, values, len(sameIDs), "ids of one value have two keys")
	for _, v := range []string{`null`, `true`, `{}`, `[1]`, ``} {
		require.False(t, IsID([]byte(v)), v)
		require.Equal(t, v, string(Key([]byte(v))), "it is left alone")
	}
}

// What nearly all clients send costs nothing, and an exponent of any size costs no more than its digits.
func TestWhatAKeyCosts(t *testing.T) {
	for _, id := range []string{`1`, `9007199254740993`, `-7`, `"a"`, `"größe"`, `"6f1c3a52-6d0e-4f8a-9f3e-2f5f0a3b7c11"`, strings.Repeat("9", 1000)} {
		raw := []byte(id)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if key := Key(raw); string(key) != id {
				t.Error(id)
			}
		}), id)
	}
	for _, id := range []string{"1e999999999", "1e-999999999", "1e999999999999999999999999999", "-1.5E+1024", "1e1024"} {
		require.LessOrEqual(t, len(Key([]byte(id))), len(id)+24, id)
	}
	require.Len(t, Key([]byte("1e1023")), 1024, "the longest that is written out")
}

// What comes back from encoding/json as it was.
func TestSurvives(t *testing.T) {
	for id, want := range map[string]bool{
		`1`: true, `0`: true, `-1`: true, `9007199254740992`: true, `-9007199254740992`: true, `"a"`: true, `""`: true, `"a-b.c/d e"`: true,
		`9007199254740993`: false, `-9007199254740993`: false, `1e3`: false, `2.0`: false, `1.5`: false, `-0`: false, `1e999999999`: false,
		`"\u0061"`: false, `"a\/b"`: false, `"<"`: false, `"&"`: false, `"ü"`: false, "\"\u2028\"": false, ``: false, `99999999999999999999`: false,
	} {
		require.Equal(t, want, Survives([]byte(id)), id)
	}
}

func FuzzKey(f *testing.F) {
	for _, line := range sameIDs {
		for _, id := range line {
			f.Add([]byte(id), []byte(line[0]))
			f.Add([]byte(id), []byte(sameIDs[0][0]))
		}
	}
	f.Add(append([]byte("9.07"), bytes.Repeat([]byte{0xe1}, 500)...), []byte("1")) // no JSON, and no UTF-8
	for _, sign := range []string{"", "+", "-"} {
		f.Add([]byte("100E"+sign+strings.Repeat("0", 2000)+"1"), []byte("100E"+sign+"01"))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		a, b = trimmed(a), trimmed(b)
		ka, kb := string(Key(a)), string(Key(b))
		require.LessOrEqual(t, len(ka), max(maxDigits, 2*len(a)+24))
		if !IsID(a) || !isJSON(a) || !IsID(b) || !isJSON(b) {
			return
		}
		if a[0] != '"' {
			require.True(t, isJSON([]byte(ka)), "the key of a number is that number")
			require.Equal(t, ka, string(Key([]byte(ka))))
		}
		if Survives(a) {
			require.Equal(t, string(a), ka)
			var v any
			require.NoError(t, json.Unmarshal(a, &v))
			again, err := json.Marshal(v)
			require.NoError(t, err)
			if n, ok := v.(float64); ok {
				again, err = json.Marshal(int64(n))
				require.NoError(t, err)
			}
			require.Equal(t, string(a), string(again))
		}
		if (a[0] == '"') != (b[0] == '"') {
			require.NotEqual(t, ka, kb)
			return
		}
		if a[0] == '"' {
			var x, y string
			require.NoError(t, json.Unmarshal(a, &x))
			require.NoError(t, json.Unmarshal(b, &y))
			if !strings.ContainsRune(x, '\ufffd') { // which encoding/json has in place of any lone surrogate
				require.Equal(t, x == y, ka == kb, "%s %s", a, b)
			}
			return
		}
		if x, y := rational(a), rational(b); x != nil && y != nil {
			require.Equal(t, x.Cmp(y) == 0, ka == kb, "%s %s", a, b)
		}
	})
}

func trimmed(b []byte) []byte { return []byte(strings.Trim(string(b), " \t\r\n")) }

// rational is a number as package math/big reads it; nil where its exponent is so large that this would cost memory.
func rational(id []byte) *big.Rat {
	_, exponent, _ := strings.Cut(strings.ToLower(string(id)), "e")
	if len(strings.TrimLeft(exponent, "+-0")) > 4 {
		return nil
	}
	r, ok := new(big.Rat).SetString(string(id))
	if !ok {
		return nil
	}
	return r
}
