package jsonrpc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsBatch(t *testing.T) {
	for body, want := range map[string]bool{
		"": false, " ": false, "[": true, " \t\r\n[]": true, "{": false, "[]": true, `"["`: false, "\v[": false, "\xef\xbb\xbf[]": false,
	} {
		require.Equal(t, want, IsBatch([]byte(body)), "%q", body)
	}
}

func TestParseBatch(t *testing.T) {
	const one, two = `{"jsonrpc":"2.0","id":1,"method":"a"}`, `{"jsonrpc":"2.0","method":"b","params":{}}`
	for _, c := range []struct {
		body string
		raw  []string
		err  error
	}{
		{`[` + one + `]`, []string{one}, nil},
		{" [ " + one + " ,\n" + two + "\t] ", []string{one, two}, nil},
		{`[` + one + `,` + one + `]`, []string{one, one}, nil}, // that ids differ is not the envelope's matter

		{`[]`, nil, &Error{CodeInvalid, "an empty batch"}},
		{` [ ] `, nil, &Error{CodeInvalid, "an empty batch"}},
		{one, nil, &Error{CodeInvalid, "a batch must be an array"}},
		{`1`, nil, &Error{CodeInvalid, "a batch must be an array"}},
		{`[1]`, nil, &Error{CodeInvalid, "message 1: a message must be an object"}},
		{`[` + one + `,[` + one + `]]`, []string{one}, &Error{CodeInvalid, "message 2: a message must be an object"}},
		{`[` + one + `,` + two + `,{"jsonrpc":"2.0","id":1,"id":2}]`, []string{one, two}, &Error{CodeInvalid, `message 3: duplicate key "id"`}},
		// The first faulty one counts, and nothing behind it is returned.
		{`[` + one + `,{},` + two + `,{"ID":1}]`, []string{one}, &Error{CodeInvalid, `message 2: key "jsonrpc" is missing`}},
		{`[{"jsonrpc":"2.0","method":"b","params":{"a":[]}}]`, nil, &Error{CodeInvalid, `message 1: nested deeper than 2`}},

		{``, nil, &Error{CodeParse, "not JSON: ends at offset 0, expected a value"}},
		{"\xef\xbb\xbf[" + one + "]", nil, &Error{CodeParse, "not JSON at offset 0: expected no byte order mark"}},
		{`[`, nil, &Error{CodeParse, "message 1: not JSON: ends at offset 1, expected a value"}},
		{`[,]`, nil, &Error{CodeParse, "message 1: not JSON at offset 1: expected a value"}},
		{`[` + one, []string{one}, &Error{CodeParse, "not JSON: ends at offset 38, expected ',' or ']'"}},
		{`[` + one + `,]`, []string{one}, &Error{CodeParse, "message 2: not JSON at offset 39: expected a value"}},
		{`[` + one + `}`, []string{one}, &Error{CodeParse, "not JSON at offset 38: expected ',' or ']'"}},
		{`[` + one + `]]`, []string{one}, &Error{CodeParse, "not JSON at offset 39: expected nothing after the value"}},
		{`[` + one + `,{},{"a"}]`, []string{one}, &Error{CodeParse, "message 3: not JSON at offset 46: expected ':'"}},
		{`[] x`, nil, &Error{CodeParse, "not JSON at offset 3: expected nothing after the value"}},
	} {
		t.Run(c.body, func(t *testing.T) {
			before := Message{Method: []byte("before")}
			got, err := ParseBatch([]Message{before}, []byte(c.body), 2)
			require.Equal(t, before, got[0])
			var raw []string
			for _, m := range got[1:] {
				raw = append(raw, string(m.Raw))
				alone, err := Parse(m.Raw, 2)
				require.NoError(t, err)
				require.Equal(t, alone, m)
			}
			require.Equal(t, c.raw, raw)
			if c.err == nil {
				require.NoError(t, err) // and not a nil *Error in an error
				return
			}
			require.Equal(t, c.err, err)
		})
	}
}

// A batch is read one message at a time: whoever stops reads no further, and an error comes last.
func TestBatch(t *testing.T) {
	const one = `{"jsonrpc":"2.0","method":"a"}`
	for body, want := range map[string][2]int{ // messages, errors
		`[` + one + `,` + one + `]`: {2, 0}, `[` + one + `,{}]`: {1, 1}, `[` + one + `,{},` + one + `]`: {1, 1}, `[` + one: {1, 1}, `[]`: {0, 1}, one: {0, 1},
	} {
		got := [2]int{}
		for m, err := range Batch([]byte(body), 64) {
			if err != nil {
				require.Zero(t, m)
				got[1]++
				continue
			}
			require.Zero(t, got[1], "behind an error comes nothing")
			require.Equal(t, one, string(m.Raw)) //nolint:testifylint // to the byte
			got[0]++
		}
		require.Equal(t, want, got, body)
	}
	for m, err := range Batch([]byte(`[`+one+`, and whatever`), 64) {
		require.NoError(t, err)
		require.Equal(t, one, string(m.Raw)) //nolint:testifylint // to the byte
		break
	}
}

func TestValid(t *testing.T) {
	for value, want := range map[string]bool{
		`{}`: true, ` [1, "x", null] `: true, `"ä"`: true, `1e5`: true, "": false, " ": false, `{"a":}`: false, `{} {}`: false, "\"\x01\"": false, "\"\xff\"": false,
		"\ufeff{}": false, `nul`: false, `[1,]`: false, `{"a":1`: false,
	} {
		require.Equal(t, want, Valid([]byte(value)), "%q", value)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { Valid([]byte(`{"a":[{"b":"c"}]}`)) }))
}
