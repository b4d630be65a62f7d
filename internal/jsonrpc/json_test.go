package jsonrpc

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// isJSON is encoding/json's opinion, less the invalid UTF-8 it lets pass.
func isJSON(b []byte) bool { return json.Valid(b) && utf8.Valid(b) }

// values are JSON or nearly JSON, for tests and as seeds. Which they are, TestGrammar says.
var values = []struct {
	text  string
	valid bool
}{
	{`null`, true}, {`true`, true}, {`false`, true},
	{`nul`, false}, {`nullx`, false}, {`NULL`, false}, {`True`, false}, {`tru`, false}, {`falsE`, false}, {`fals`, false}, {`n`, false}, {`undefined`, false},

	{`0`, true}, {`-0`, true}, {`10`, true}, {`-1`, true}, {`1.5`, true}, {`0.0`, true}, {`1e5`, true}, {`1E+5`, true}, {`1.50e-05`, true},
	{`123456789012345678901234567890`, true}, {`1e999999`, true},
	{`01`, false}, {`-`, false}, {`-01`, false}, {`+1`, false}, {`.5`, false}, {`1.`, false}, {`1.e5`, false}, {`1e`, false}, {`1e+`, false}, {`1e5.`, false},
	{`0x10`, false}, {`1_000`, false}, {`--1`, false}, {`1e5e5`, false}, {`NaN`, false}, {`Infinity`, false}, {`-Infinity`, false}, {`1,`, false}, {`١`, false},

	{`""`, true}, {`"a"`, true}, {`"\"\\\/\b\f\n\r\t"`, true}, {`"\u00e4\u00E4\uABCD\uFfFf\u0990"`, true}, {"\"\ufffd\"", true}, {`"\ud800"`, true}, {`"\udc00\ud800"`, true},
	{`"\ud800\n"`, true}, {`"\ud800\ud800\udc00"`, true}, {`"\u0000"`, true}, {"\"\x7f\"", true}, {"\"\u2028\u2029\ufeff\"", true}, {`"ä€😀"`, true},
	{`"12345678"`, true}, {`"1234567ä90"`, true}, {`"123456\"7"`, true}, {`"1234567\\"`, true}, {`"12345678\""`, true}, {`"/*"`, true},
	{`"`, false}, {`"a`, false}, {`"\"`, false}, {`"\`, false}, {`"\u"`, false}, {`"\u12"`, false}, {`"\u123"`, false}, {`"\u123g"`, false}, {`"\u 123"`, false}, {`"\U0001"`, false},
	{`"\a"`, false}, {`"\x41"`, false}, {`"\'"`, false}, {`'a'`, false}, {`"\u12`, false}, {`"\u+123"`, false},
	{"\"\x00\"", false}, {"\"\x1f\"", false}, {"\"\n\"", false}, {"\"\t\"", false}, {"\"1234567\x01\"", false}, {"\"12345678\x1f\"", false}, {"\"\\\n\"", false},
	{"\"\xff\"", false}, {"\"\xc3\"", false}, {"\"\xc0\x80\"", false}, {"\"\xed\xa0\x80\"", false}, {"\"\xf4\x90\x80\x80\"", false}, {"\"\xe2\x82\"", false},
	{"\"1234567\x80\"", false}, {"\"ä\x80\"", false},

	{`[]`, true}, {`[ ]`, true}, {`[1]`, true}, {"[ 1 ,\n2\t,\r3 ]", true}, {`[[],[[]],{}]`, true}, {`[null,{"a":[]}]`, true},
	{`[`, false}, {`]`, false}, {`[1`, false}, {`[1,`, false}, {`[1,]`, false}, {`[,1]`, false}, {`[,]`, false}, {`[1 2]`, false}, {`[1}`, false}, {`[1,,2]`, false}, {`[1:2]`, false}, {`[[]`, false}, {`[]]`, false},
	{"[1\v]", false}, {"[1\u00a0]", false}, {"[1\f]", false}, {"[1\x00]", false},

	{`{}`, true}, {`{ }`, true}, {`{"a":1}`, true}, {"{ \"a\" : 1 ,\n\"b\"\t:\r2 }", true}, {`{"a":{"a":{}},"a":[]}`, true}, {`{"":""}`, true}, {`{"\u0061":1}`, true},
	{`{`, false}, {`}`, false}, {`{"a"`, false}, {`{"a"}`, false}, {`{"a":`, false}, {`{"a":}`, false}, {`{"a":1`, false}, {`{"a":1,`, false}, {`{"a":1,}`, false}, {`{,}`, false}, {`{"a":1]`, false},
	{`{a:1}`, false}, {`{1:1}`, false}, {`{null:1}`, false}, {`{"a" 1}`, false}, {`{"a":1 "b":2}`, false}, {`{"a"::1}`, false}, {`{"a":1,,"b":2}`, false}, {`{"a\":1}`, false}, {"{\"\xff\":1}", false},
	{`{"a":1}}`, false}, {`{"a","b"}`, false}, {`{[]:1}`, false},

	{``, false}, {`/**/1`, false}, {`1//`, false}, {"\xef\xbb\xbf1", false}, {"1\xef\xbb\xbf", false}, {`1 1`, false}, {"\x00", false}, {`,`, false}, {`:`, false},
}

func TestGrammar(t *testing.T) {
	for _, v := range values {
		t.Run(v.text, func(t *testing.T) {
			require.Equal(t, v.valid, isJSON([]byte(v.text)), "the table is wrong")
			for _, around := range []struct{ before, after string }{
				{"", ""},
				{" \n", "\t\r"},
				{`{"jsonrpc":"2.0","id":1,"method":"m","other":`, `}`},
				{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[0,`, `]}}`},
				{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":`, `,"b":0}}`},
				{`[` + strings.Repeat(`[`, 70), strings.Repeat(`]`, 70) + `]`},
			} {
				body := []byte(around.before + v.text + around.after)
				_, err := Parse(body, 100)
				code := 0
				if err != nil {
					code = err.(*Error).Code
				}
				require.Equal(t, isJSON(body), code != CodeParse, "%s: %v", body, err)
				_, err = ParseBatch(nil, body, 100)
				require.Error(t, err)
				require.Equal(t, isJSON(body), err.(*Error).Code != CodeParse, "%s: %v", body, err)
			}
		})
	}
}

// Objects and arrays of all shapes, deeper than one word of the scanner's memory and with siblings on the way out.
func TestDeepShapes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var grow func(b []byte, levels int) []byte
	grow = func(b []byte, levels int) []byte {
		if levels == 0 {
			return append(b, '0')
		}
		object := random.IntN(2) == 0
		open, name, shut := byte('['), "", byte(']')
		if object {
			open, name, shut = '{', `"a":`, '}'
		}
		b = append(append(b, open), name...)
		b = grow(b, levels-1)
		if random.IntN(32) == 0 {
			b = append(append(b, ','), name...)
			b = grow(b, random.IntN(levels))
		}
		return append(b, shut)
	}
	for range 200 {
		body := grow(nil, 1+random.IntN(300))
		require.True(t, json.Valid(body))
		s := scanner{b: body, limit: 300}
		require.True(t, s.value(0), "%s", body)
		require.Nil(t, s.fault)
		require.Equal(t, len(body), s.i)

		at := bytes.LastIndexByte(body[:1+random.IntN(len(body)-1)], '0') + 1 // a closing bracket, or a comma
		body[at] ^= '}' ^ ']'
		s = scanner{b: body, limit: 300}
		require.False(t, s.value(0) && s.i == len(body), "%s", body)
	}
}

// All bytes in all places of a word: the scanner looks at eight bytes at once.
func TestEveryByteEverywhere(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			text := []byte(`"abcdefghijklmnopqrst"`)
			text[1+at] = byte(c)
			s := scanner{b: text, limit: 1}
			valid := s.value(0) && s.i == len(text)
			require.Equal(t, isJSON(text), valid, "%q", text)

			got, ok := Unquote(text)
			var want string
			err := json.Unmarshal(text, &want)
			require.Equal(t, err == nil, ok, "%q", text)
			require.Equal(t, want, got)
		}
	}
}
