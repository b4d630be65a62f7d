package jsonrpc

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// seeds are bodies in which something is odd.
func seeds() (bodies [][]byte) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"\u0031"}}}`,
		`{"jsonrpc":"2.0","id":"\ud83d\ude00\"","method":"a\/\u0062","params":null,"x":[1,2.5e-3,[[]],{"":{}}]}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.50}}`,
		`{"jsonrpc":"2.0","id":-0,"result":{"a":"größe \ud800 \u2028"},"params":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":null}}`,
		`{"jsonrpc":"2.0","id":null,"error":{}}0`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":1},"error":null}`,
		`{"jsonrpc":"2.0","id":1,"result":null,"error":{}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\u0085\",\"params\":{\"\u2028\":\"\u2029\u0085\"}}",
		`{"\u006asonrpc":"\u0032.0","\u0069d":1,"metho\u0064":"m"}`,
		`{"jsonrpc":"2.0","\u0069d":1,"id":2,"method":"m"}`,
		`{"jsonrpc":"2.0","ID":1,"Method":"m","paramſ":{}}`,
		" \r\n{\t\"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"m\" } \n",
		`[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","method":"n"}]`,
		"\xef\xbb\xbf{}", "{\"id\":1,\"a\":\"\xff\"}", `{"a":{"b":{"a":1},"a":2},"\u0061b":3}`,
	} {
		bodies = append(bodies, []byte(s))
	}
	for _, v := range values {
		bodies = append(bodies, []byte(v.text), []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":`+v.text+`}}`))
	}
	return bodies
}

// within reports whether part is nil or lies in whole, as memory.
func within(part, whole []byte) bool {
	if part == nil {
		return true
	}
	p, w := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return w <= p && p+uintptr(len(part)) <= w+uintptr(len(whole))
}

// tooDeepForJSON: from 10,000 levels on, encoding/json has no opinion.
func tooDeepForJSON(b []byte) bool {
	return bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) >= 10_000
}

func FuzzParse(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b, uint8(64))
		f.Add(b, uint8(2))
	}
	f.Fuzz(func(t *testing.T, body []byte, depth uint8) {
		if tooDeepForJSON(body) {
			return
		}
		m, err := Parse(body, int(depth))
		for _, part := range [][]byte{m.ID, m.Params, m.Result, m.Err, m.Raw} {
			require.True(t, within(part, body))
		}
		batch, batchErr := ParseBatch(nil, body, int(depth))
		require.False(t, err == nil && batchErr == nil, "no body is both")
		for _, m := range batch {
			require.True(t, within(m.Raw, body))
			alone, err := Parse(m.Raw, int(depth))
			require.NoError(t, err)
			require.Equal(t, alone, m)
		}
		for _, err := range []error{err, batchErr} {
			if err != nil {
				require.Equal(t, isJSON(body), err.(*Error).Code == CodeInvalid, "%v", err)
			}
		}
		if batchErr == nil {
			require.True(t, IsBatch(body))
			require.True(t, isJSON(body))
		}

		// The id of a refusal. Of two ids, encoding/json keeps the last, so it can only confirm what is there.
		var fields map[string]json.RawMessage
		isObject := json.Unmarshal(body, &fields) == nil && fields != nil
		if err != nil {
			require.Equal(t, Message{ID: m.ID}, m)
			if m.ID != nil {
				require.True(t, json.Valid(m.ID) && m.ID[0] != 'n')
				if isObject && isJSON(body) {
					require.Equal(t, string(fields["id"]), string(m.ID))
				}
			}
			return
		}

		require.True(t, isObject && isJSON(body))
		require.False(t, IsBatch(body))
		require.Equal(t, bytes.Trim(body, " \r\n\t"), m.Raw)
		require.Equal(t, string(fields["id"]), string(m.ID))
		for _, other := range []struct {
			kind Kind
			name string
		}{{Result, "error"}, {Failure, "result"}} {
			if m.Kind == other.kind && string(fields[other.name]) == "null" {
				delete(fields, other.name)
			}
		}
		require.Equal(t, string(fields["result"]), string(m.Result))
		require.Equal(t, string(fields["error"]), string(m.Err))
		if m.Kind == Request || m.Kind == Notification {
			var method string
			require.NoError(t, json.Unmarshal(fields["method"], &method))
			require.Equal(t, method, string(m.Method))
			if params := string(fields["params"]); params != "null" {
				require.Equal(t, params, string(m.Params))
			}
		}

		var again []byte
		switch m.Kind {
		case Request, Notification:
			again = AppendRequest(nil, m.ID, string(m.Method), m.Params)
		case Result:
			again = AppendResult(nil, m.ID, m.Result)
		case Failure:
			// A peer's error need not have code and message, so the whole one travels as the data of ours.
			again = AppendError(nil, m.ID, 1, string(m.ID), m.Err)
		}
		back, err := Parse(again, int(depth)+1)
		require.NoError(t, err, "%s", again)
		if m.Kind == Failure {
			data, ok := Field(back.Err, "data")
			require.True(t, ok)
			back.Err = data
			text, ok := Field(again, "error", "message")
			require.True(t, ok)
			got, _ := Unquote(text)
			require.Equal(t, string(m.ID), got)
		}
		m.Raw, back.Raw = nil, nil
		m.Params, m.Result, m.Err = escapedLines(m.Params), escapedLines(m.Result), escapedLines(m.Err)
		require.Equal(t, m, back)
	})
}

func FuzzField(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b, "params", "a")
		f.Add(b, "a", "b")
	}
	f.Fuzz(func(t *testing.T, obj []byte, a, b string) {
		for _, path := range [][]string{nil, {a}, {a, b}, {a, b, a}} {
			v, ok := Field(obj, path...)
			require.True(t, within(v, obj))
			require.Equal(t, ok, v != nil)
			if tooDeepForJSON(obj) || !isJSON(obj) || len(path) == 0 {
				continue
			}
			// RawMessages step by step, since a map of maps would merge an object that is there twice.
			want, found := obj, true
			for _, name := range path {
				var fields map[string]json.RawMessage
				if json.Unmarshal(want, &fields) != nil {
					found = false
					break
				}
				if want, found = fields[name]; !found {
					break
				}
			}
			require.Equal(t, found, ok, "%q", path)
			if found {
				require.Equal(t, string(want), string(v), "%q", path)
			}
		}
	})
}

func FuzzString(f *testing.F) {
	for _, v := range values {
		f.Add([]byte(v.text))
		f.Add(bytes.Trim([]byte(v.text), `"`))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// As text.
		raw := AppendString(nil, string(b))
		require.Equal(t, string(encoded(t, string(b))), string(raw))
		require.True(t, isJSON(raw))
		require.Equal(t, -1, bytes.IndexAny(raw, "\r\n"))
		got, ok := Unquote(raw)
		require.True(t, ok)
		require.Equal(t, string([]rune(string(b))), got, "invalid bytes become U+FFFD, each by itself")

		// As a JSON string. Around one, encoding/json allows white space.
		var want string
		err := json.Unmarshal(b, &want)
		valid := err == nil && len(b) > 0 && b[0] == '"' && b[len(b)-1] == '"'
		got, ok = Unquote(b)
		require.Equal(t, valid, ok)
		if valid {
			require.Equal(t, want, got)
			require.Equal(t, isString(b, want), bytes.ContainsRune(b, '\\') || isJSON(b))
		}
	})
}

func FuzzTruncated(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 300 {
			return // it would be quadratic
		}
		whole, err := Parse(body, 100)
		if err != nil {
			return
		}
		body = slices.Clip(bytes.TrimRight(body, " \r\n\t"))
		shown := false
		for n := range body {
			m, err := Parse(body[:n:n], 100)
			require.Error(t, err)
			require.Equal(t, CodeParse, err.(*Error).Code)
			if m.ID != nil {
				require.Equal(t, string(whole.ID), string(m.ID), "%s", body[:n])
				shown = true
			}
			require.False(t, shown && m.ID == nil, "an id that was there is there in a longer part: %s", body[:n])
		}
		if whole.ID != nil && whole.ID[0] != 'n' {
			at := uintptr(unsafe.Pointer(&whole.ID[0])) - uintptr(unsafe.Pointer(&body[0]))
			end := int(at) + len(whole.ID) + 1 // and the byte behind it, which ends a number
			if end < len(body) {
				m, _ := Parse(body[:end:end], 100)
				require.Equal(t, string(whole.ID), string(m.ID))
			}
		}
	})
}
