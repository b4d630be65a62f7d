package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnquote(t *testing.T) {
	for raw, want := range map[string]string{
		`""`:                       "",
		`"abc"`:                    "abc",
		`"a\u0062c"`:               "abc",
		`"\"\\\/\b\f\n\r\t"`:       "\"\\/\b\f\n\r\t",
		`"\ud83d\ude00"`:           "😀",
		`"\uD83D\uDE00!"`:          "😀!",
		`"\ud83d"`:                 "\ufffd",
		`"\ude00\ud83d"`:           "\ufffd\ufffd",
		`"\ud83d\ud83d\ude00"`:     "\ufffd😀",
		`"\ud83d\u0041"`:           "\ufffdA",
		`"\ud83d\n"`:               "\ufffd\n",
		`"\ud83dude00"`:            "\ufffdude00",
		"\"a\xffb\xc3\"":           "a\ufffdb\ufffd",
		"\"\xed\xa0\x80\"":         "\ufffd\ufffd\ufffd",
		"\"größe und ein \u2028\"": "größe und ein \u2028",
		`"\u0000"`:                 "\x00",
	} {
		got, ok := Unquote([]byte(raw))
		require.True(t, ok, raw)
		require.Equal(t, want, got, raw)
	}
	for _, raw := range []string{``, `"`, `a`, `1`, `null`, `"a`, `a"`, ` "a"`, `"a" `, `"a"b"`, `"\"`, `"\x"`, `"\u12"`, `"\ud83d\u12"`, `"\ud83d\"`, "\"\n\"", "\"\x00\""} {
		got, ok := Unquote([]byte(raw))
		require.False(t, ok, raw)
		require.Empty(t, got)
	}
}

func TestAppendString(t *testing.T) {
	for text, want := range map[string]string{
		"":                     `""`,
		"abc":                  `"abc"`,
		"<&>'":                 `"<&>'"`,
		"\"\\/":                `"\"\\/"`,
		"\b\f\n\r\t":           `"\b\f\n\r\t"`,
		"\x00\x1f\x7f":         "\"\\u0000\\u001f\x7f\"",
		"größe 😀":              `"größe 😀"`,
		"a\u2028b\u2029":       `"a\u2028b\u2029"`,
		"a\u0085b":             `"a\u0085b"`,
		"\xff\ufffd\xe2\x80":   `"\ufffd` + "\ufffd" + `\ufffd\ufffd"`,
		"x\xed\xa0\x80y\r\nz":  `"x\ufffd\ufffd\ufffdy\r\nz"`,
		"\u2027\u202a\u00a8\t": "\"\u2027\u202a\u00a8\\t\"",
	} {
		require.Equal(t, "before"+want, string(AppendString([]byte("before"), text)))
		require.Equal(t, want, string(encoded(t, text)), "encoding/json has changed")
	}
}

// encoded is encoding/json's way to write a string.
func encoded(t *testing.T, text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(text))
	return escapedLines(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// escapedLines is JSON with Unicode's line breaks written as escapes, of which encoding/json leaves one alone and, in a RawMessage, all.
func escapedLines(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	return []byte(strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`).Replace(string(raw)))
}

// What some clients take for the end of a line is never written, wherever it stands in what an app hands over, and its meaning is kept.
func TestLineBreaksOfUnicodeAreEscaped(t *testing.T) {
	for _, raw := range []string{
		"\"\u2028\"", "{\"a\u0085\":[\"\u2029\u2028\",\"x\u0085\\\\\u0085\"]}", `"â\u2028Â"`, "\"\u2027\u202a\u0084\u0086\u20a8\"", "\"“–”…é\u2028\"",
		"\"" + strings.Repeat("é”\u2028", 1000) + "\"", `{}`,
	} {
		for _, message := range [][]byte{
			AppendResult(nil, []byte("1"), []byte(raw)), AppendError(nil, []byte("1"), 1, raw, []byte(raw)),
			AppendRequest(nil, []byte("1"), raw, []byte(`{"p":`+raw+`}`)), AppendString(nil, raw),
		} {
			require.NotContains(t, string(message), "\u0085")
			require.NotContains(t, string(message), "\u2028")
			require.NotContains(t, string(message), "\u2029")
			require.True(t, isJSON(message), "%s", message)
		}
		result, ok := Field(AppendResult(nil, []byte("1"), []byte(raw)), "result")
		require.True(t, ok)
		require.JSONEq(t, raw, string(result))
		require.Equal(t, string(escapedLines([]byte(raw))), string(result), "nothing else is touched")
	}
	plain, dst := []byte(`{"content":[{"type":"text","text":"größe “quoted” – 😀"}]}`), make([]byte, 0, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() { AppendResult(dst, []byte("1"), plain) }))
}

func TestAppend(t *testing.T) {
	for _, c := range []struct{ want, got string }{
		{`{"jsonrpc":"2.0","id":1,"result":[2]}`, string(AppendResult(nil, []byte(`1`), []byte(`[2]`)))},
		{`{"jsonrpc":"2.0","id":null,"result":{}}`, string(AppendResult(nil, nil, nil))},
		{`x{"jsonrpc":"2.0","id":"a","result":null}`, string(AppendResult([]byte("x"), []byte(`"a"`), []byte(`null`)))},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"key \"ID\"\n"}}`, string(AppendError(nil, []byte(`1`), -32600, "key \"ID\"\n", nil))},
		{`x{"jsonrpc":"2.0","id":null,"error":{"code":0,"message":"","data":{"a":1}}}`, string(AppendError([]byte("x"), nil, 0, "", []byte(`{"a":1}`)))},
		{`{"jsonrpc":"2.0","id":"a","method":"m\"","params":{"a":1}}`, string(AppendRequest(nil, []byte(`"a"`), `m"`, []byte(`{"a":1}`)))},
		{`x{"jsonrpc":"2.0","method":"m"}`, string(AppendRequest([]byte("x"), nil, "m", nil))},
	} {
		require.Equal(t, c.want, c.got)
	}
}
