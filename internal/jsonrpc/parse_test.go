package jsonrpc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const testDepth = 64

// view is a Message one can write down: "-" for nil.
type view struct{ id, method, params, result, err string }

func viewOf(m Message) view {
	text := func(b []byte) string {
		if b == nil {
			return "-"
		}
		return string(b)
	}
	return view{text(m.ID), text(m.Method), text(m.Params), text(m.Result), text(m.Err)}
}

func TestParseAccepts(t *testing.T) {
	for _, c := range []struct {
		name, body string
		kind       Kind
		want       view
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, Request, view{"1", "ping", "-", "-", "-"}},
		{"request with params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":[1,{}]}}`, Request,
			view{"1", "tools/call", `{"a":[1,{}]}`, "-", "-"}},
		{"any order, white space", " \r\n\t{ \"params\" : { \"a\" : 1 } , \"method\":\"m\" ,\t\"id\" : \"x\" ,\"jsonrpc\" : \"2.0\" }\n ", Request,
			view{`"x"`, "m", `{ "a" : 1 }`, "-", "-"}},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, Notification, view{"-", "notifications/initialized", "-", "-", "-"}},
		{"null params are absent", `{"jsonrpc":"2.0","method":"m","params":null}`, Notification, view{"-", "m", "-", "-", "-"}},
		{"id kept as written: fraction", `{"jsonrpc":"2.0","id":1.50,"method":"m"}`, Request, view{"1.50", "m", "-", "-", "-"}},
		{"id kept as written: exponent", `{"jsonrpc":"2.0","id":-0e+1,"method":"m"}`, Request, view{"-0e+1", "m", "-", "-", "-"}},
		{"id kept as written: past 64 bits", `{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"m"}`, Request,
			view{"123456789012345678901234567890", "m", "-", "-", "-"}},
		{"id kept as written: escapes", `{"jsonrpc":"2.0","id":"\u0031\n","method":"m"}`, Request, view{`"\u0031\n"`, "m", "-", "-", "-"}},
		{"id of zero", `{"jsonrpc":"2.0","id":0,"method":"m"}`, Request, view{"0", "m", "-", "-", "-"}},
		{"id of nine", `{"jsonrpc":"2.0","id":9,"method":"m"}`, Request, view{"9", "m", "-", "-", "-"}},
		{"id of no characters", `{"jsonrpc":"2.0","id":"","method":"m"}`, Request, view{`""`, "m", "-", "-", "-"}},
		{"result", `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, Result, view{"1", "-", "-", `{"a":1}`, "-"}},
		{"result that is no object", `{"jsonrpc":"2.0","id":1,"result":null}`, Result, view{"1", "-", "-", `null`, "-"}},
		{"failure", `{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":""}}`, Failure, view{`"a"`, "-", "-", "-", `{"code":1,"message":""}`}},
		{"failure without a known id", `{"jsonrpc":"2.0","id":null,"error":{}}`, Failure, view{"null", "-", "-", "-", "{}"}},
		{"null error beside a result", `{"jsonrpc":"2.0","id":1,"result":{"a":1},"error":null}`, Result, view{"1", "-", "-", `{"a":1}`, "-"}},
		{"null error before a result", `{"jsonrpc":"2.0","id":1,"error":null,"result":[]}`, Result, view{"1", "-", "-", `[]`, "-"}},
		{"null error beside a null result", `{"jsonrpc":"2.0","id":1,"result":null,"\u0065rror":null}`, Result, view{"1", "-", "-", `null`, "-"}},
		{"null result beside an error", `{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1}}`, Failure, view{"1", "-", "-", "-", `{"code":1}`}},
		{"null result after an error", `{"jsonrpc":"2.0","id":null,"error":{},"result":null}`, Failure, view{"null", "-", "-", "-", `{}`}},
		{"params of a response mean nothing", `{"jsonrpc":"2.0","id":1,"result":{},"params":{}}`, Result, view{"1", "-", "-", "{}", "-"}},
		{"escaped keys", `{"\u006asonrpc":"2.0","\u0069d":1,"metho\u0064":"m","p\u0061rams":{}}`, Request, view{"1", "m", "{}", "-", "-"}},
		{"escaped version", `{"jsonrpc":"\u0032.0","id":1,"method":"m"}`, Request, view{"1", "m", "-", "-", "-"}},
		{"escaped method", `{"jsonrpc":"2.0","id":1,"method":"tools\/c\u0061ll\ud83d\ude00"}`, Request, view{"1", "tools/call😀", "-", "-", "-"}},
		{"method with a lone surrogate", `{"jsonrpc":"2.0","id":1,"method":"\ud83dx"}`, Request, view{"1", "\ufffdx", "-", "-", "-"}},
		{"method that is not ASCII", `{"jsonrpc":"2.0","id":1,"method":"größe😀"}`, Request, view{"1", "größe😀", "-", "-", "-"}},
		{"other keys, twice", `{"jsonrpc":"2.0","x":1,"id":1,"x":{"id":2,"ID":3},"parameters":0,"":[],"ids":1,"method":"m","i\u0064s":2}`, Request,
			view{"1", "m", "-", "-", "-"}},
		{"known keys further in", `{"jsonrpc":"2.0","method":"m","params":{"id":1,"id":2,"Method":3,"error":{}}}`, Notification,
			view{"-", "m", `{"id":1,"id":2,"Method":3,"error":{}}`, "-", "-"}},
		{"a long key", `{"jsonrpc":"2.0","method":"m","` + strings.Repeat(`\u0069`, 1000) + `":1}`, Notification, view{"-", "m", "-", "-", "-"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse([]byte(c.body), testDepth)
			require.NoError(t, err)
			require.Equal(t, c.kind, m.Kind)
			require.Equal(t, c.want, viewOf(m))
			require.Equal(t, strings.Trim(c.body, " \r\n\t"), string(m.Raw))
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		body   string
		code   int
		reason string
		id     string // "-" for none
	}{
		// The envelope.
		{`[]`, CodeInvalid, `a message must be an object`, "-"},
		{`[{"jsonrpc":"2.0","id":1,"method":"m"}]`, CodeInvalid, `a message must be an object`, "-"},
		{`"id"`, CodeInvalid, `a message must be an object`, "-"},
		{`{}`, CodeInvalid, `key "jsonrpc" is missing`, "-"},
		{`{"id":1,"method":"m"}`, CodeInvalid, `key "jsonrpc" is missing`, "1"},
		{`{"jsonrpc":"2.00","id":1,"method":"m"}`, CodeInvalid, `"jsonrpc" must be "2.0"`, "1"},
		{`{"jsonrpc":"1.0","id":1,"method":"m"}`, CodeInvalid, `"jsonrpc" must be "2.0"`, "1"},
		{`{"jsonrpc":2.0,"id":1,"method":"m"}`, CodeInvalid, `"jsonrpc" must be "2.0"`, "1"},
		{`{"jsonrpc":null,"id":1,"method":"m"}`, CodeInvalid, `"jsonrpc" must be "2.0"`, "1"},
		{`{"jsonrpc":"2.0","id":1}`, CodeInvalid, `none of "method", "result" and "error"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","result":1}`, CodeInvalid, `"method" and "result" in one message`, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{},"method":"m"}`, CodeInvalid, `"method" and "error" in one message`, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{},"result":{}}`, CodeInvalid, `"result" and "error" in one message`, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{},"result":false}`, CodeInvalid, `"result" and "error" in one message`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","result":null}`, CodeInvalid, `"method" and "result" in one message`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","error":null}`, CodeInvalid, `"method" and "error" in one message`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","result":null,"error":null}`, CodeInvalid, `"method" and "result" in one message`, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":1,"error":""}`, CodeInvalid, `"error" must be an object`, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":1,"error":null,"error":null}`, CodeInvalid, `duplicate key "error"`, "1"},
		{`{"jsonrpc":"2.0","id":null,"result":1,"error":null}`, CodeInvalid, `"id" must not be null`, "-"},
		{`{"jsonrpc":"2.0","result":1,"error":null}`, CodeInvalid, `a response without "id"`, "-"},
		{`{"jsonrpc":"2.0","result":1}`, CodeInvalid, `a response without "id"`, "-"},
		{`{"jsonrpc":"2.0","error":{}}`, CodeInvalid, `a response without "id"`, "-"},

		// The types of the members.
		{`{"jsonrpc":"2.0","id":null,"method":"m"}`, CodeInvalid, `"id" must not be null`, "-"},
		{`{"jsonrpc":"2.0","id":null,"result":1}`, CodeInvalid, `"id" must not be null`, "-"},
		{`{"jsonrpc":"2.0","id":true,"method":"m"}`, CodeInvalid, `"id" must be a string or a number`, "-"},
		{`{"jsonrpc":"2.0","id":false,"error":{}}`, CodeInvalid, `"id" must be a string or a number`, "-"},
		{`{"jsonrpc":"2.0","id":{"id":1},"method":"m"}`, CodeInvalid, `"id" must be a string or a number`, "-"},
		{`{"jsonrpc":"2.0","id":[1],"method":"m"}`, CodeInvalid, `"id" must be a string or a number`, "-"},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, CodeInvalid, `"method" must be a string that is not empty`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":null}`, CodeInvalid, `"method" must be a string that is not empty`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":123}`, CodeInvalid, `"method" must be a string that is not empty`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":["m"]}`, CodeInvalid, `"method" must be a string that is not empty`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, CodeInvalid, `"params" must be an object: positional parameters are not supported`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}`, CodeInvalid, `"params" must be an object`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":0}`, CodeInvalid, `"params" must be an object`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":false}`, CodeInvalid, `"params" must be an object`, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":null}`, CodeInvalid, `"error" must be an object`, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":"no"}`, CodeInvalid, `"error" must be an object`, "1"},

		// Keys twice, or in another case.
		{`{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"m"}`, CodeInvalid, `duplicate key "jsonrpc"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","method":"m"}`, CodeInvalid, `duplicate key "method"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":null,"params":{}}`, CodeInvalid, `duplicate key "params"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":1,"result":1}`, CodeInvalid, `duplicate key "result"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{},"error":{}}`, CodeInvalid, `duplicate key "error"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","id":1}`, CodeInvalid, `duplicate key "id"`, "-"},
		{`{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"m"}`, CodeInvalid, `duplicate key "id"`, "-"},
		{`{"jsonrpc":"2.0","\u0069\u0064":1,"id":2,"method":"m"}`, CodeInvalid, `duplicate key "id"`, "-"},
		{`{"jsonrpc":"2.0","id":1,"id":null,"method":"m"}`, CodeInvalid, `duplicate key "id"`, "-"},
		{`{"jsonrpc":"2.0","id":{},"id":1,"method":"m"}`, CodeInvalid, `"id" must be a string or a number`, "-"},
		{`{"jsonrpc":"2.0","id":1,"id":2,"id":3,"method":"m"}`, CodeInvalid, `duplicate key "id"`, "-"},
		{`{"jsonrpc":"2.0","ID":1,"method":"m"}`, CodeInvalid, `key "ID" must be written "id"`, "-"},
		{`{"jsonrpc":"2.0","id":1,"Id":2,"method":"m"}`, CodeInvalid, `key "Id" must be written "id"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"Method":"m"}`, CodeInvalid, `key "Method" must be written "method"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"m\u0045thod":"m"}`, CodeInvalid, `key "mEthod" must be written "method"`, "1"},
		{`{"JSONRPC":"2.0","id":1,"method":"m"}`, CodeInvalid, `key "JSONRPC" must be written "jsonrpc"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","paramſ":{}}`, CodeInvalid, `key "paramſ" must be written "params"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","j\u017fonrpc":{}}`, CodeInvalid, `key "jſonrpc" must be written "jsonrpc"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","RESULT":{}}`, CodeInvalid, `key "RESULT" must be written "result"`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","Error":{}}`, CodeInvalid, `key "Error" must be written "error"`, "1"},

		// The first fault counts, and the id is found behind it.
		{`{"jsonrpc":"1","params":[],"id":"z"}`, CodeInvalid, `"jsonrpc" must be "2.0"`, `"z"`},
		{`{"Method":"m","method":"","id":-1.5e3}`, CodeInvalid, `key "Method" must be written "method"`, `-1.5e3`},
		// A body that is not JSON outranks it, and gives the id before the place.
		{`{"jsonrpc":"1","id":7,"params":[}`, CodeParse, `not JSON at offset 32: expected a value`, `7`},
		{`{"jsonrpc":"1","params":[},"id":7}`, CodeParse, `not JSON at offset 25: expected a value`, `-`},
		{`{"id":1,"id":2,`, CodeParse, `not JSON: ends at offset 15, expected a key`, `-`},

		// What is not JSON.
		{``, CodeParse, `not JSON: ends at offset 0, expected a value`, "-"},
		{" \n", CodeParse, `not JSON: ends at offset 2, expected a value`, "-"},
		{"\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":1,"method":"m"}`, CodeParse, `not JSON at offset 0: expected no byte order mark`, "-"},
		{"\xef\xbb\xbf", CodeParse, `not JSON at offset 0: expected no byte order mark`, "-"},
		{"\xef\xbb", CodeParse, `not JSON at offset 0: expected a value`, "-"},
		{`{"jsonrpc":"2.0","id":1,"method":"m"} x`, CodeParse, `not JSON at offset 38: expected nothing after the value`, "1"},
		{`{"jsonrpc":"2.0","id":null,"error":{}}0`, CodeParse, `not JSON at offset 38: expected nothing after the value`, "-"},
		{`{"jsonrpc":"2.0","id":1,"method":"m"}{}`, CodeParse, `not JSON at offset 37: expected nothing after the value`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m"}` + "\x00", CodeParse, `not JSON at offset 37: expected nothing after the value`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m",}`, CodeParse, `not JSON at offset 37: expected a key`, "1"},
		{`{"jsonrpc":"2.0","id":1 "method":"m"}`, CodeParse, `not JSON at offset 24: expected ',' or '}'`, "1"},
		{`{"jsonrpc":"2.0","id":1,"method" "m"}`, CodeParse, `not JSON at offset 33: expected ':'`, "1"},
		{`{"jsonrpc":"2.0","id":1,method:"m"}`, CodeParse, `not JSON at offset 24: expected a key`, "1"},
		{`{,"id":1}`, CodeParse, `not JSON at offset 1: expected a key`, "-"},
		{`{"id":1,"method":"` + "\xff" + `"}`, CodeParse, `not JSON at offset 18: expected UTF-8`, "1"},
		{`{"id":1,"x":["` + "\xed\xa0\x80" + `"]}`, CodeParse, `not JSON at offset 14: expected UTF-8`, "1"},
		{`{"id":1,"x":"` + "\xc0\x80" + `"}`, CodeParse, `not JSON at offset 13: expected UTF-8`, "1"},
		{`{"id":1,"x` + "\xe2\x82" + `":1}`, CodeParse, `not JSON at offset 10: expected UTF-8`, "1"},
		{`{"id":"` + "\x80" + `"}`, CodeParse, `not JSON at offset 7: expected UTF-8`, "-"},
		{`{"id":"a` + "\n" + `"}`, CodeParse, `not JSON at offset 8: expected no control character in a string`, "-"},
		{`{"id":"\x"}`, CodeParse, `not JSON at offset 7: expected an escape`, "-"},

		// An id is reported only if all of it is there.
		{`{"id":"abc`, CodeParse, `not JSON: ends at offset 10, expected '"'`, "-"},
		{`{"id":"abc"`, CodeParse, `not JSON: ends at offset 11, expected ',' or '}'`, `"abc"`},
		{`{"id":12`, CodeParse, `not JSON: ends at offset 8, expected ',' or '}'`, "-"},
		{`{"id":12 `, CodeParse, `not JSON: ends at offset 9, expected ',' or '}'`, "12"},
		{`{"id":12,`, CodeParse, `not JSON: ends at offset 9, expected a key`, "12"},
		{`{"id":12.`, CodeParse, `not JSON: ends at offset 9, expected a digit`, "-"},
		{`{"id":12]`, CodeParse, `not JSON at offset 8: expected ',' or '}'`, "-"},
		{`{"id":01,`, CodeParse, `not JSON at offset 7: expected ',' or '}'`, "-"},
		{`{"params":{"id":12},"x":"`, CodeParse, `not JSON: ends at offset 25, expected '"'`, "-"},
		{`{"params":{"id":12,`, CodeParse, `not JSON: ends at offset 19, expected a key`, "-"},
		{`{"params":{},"id":12,"x":"`, CodeParse, `not JSON: ends at offset 26, expected '"'`, "12"},
	} {
		t.Run(c.body, func(t *testing.T) {
			m, err := Parse([]byte(c.body), testDepth)
			require.Equal(t, &Error{c.code, c.reason}, err)
			require.Equal(t, view{c.id, "-", "-", "-", "-"}, viewOf(m), "with an error, there is the id at most")
			require.Nil(t, m.Raw)
		})
	}
}

func TestErrorText(t *testing.T) {
	_, err := Parse([]byte(`[]`), testDepth)
	require.EqualError(t, err, "jsonrpc: a message must be an object")
}

func TestParseDepth(t *testing.T) {
	kinds := []struct{ name, open, shut string }{
		{"object", `{"a":`, `}`},
		{"array", `[`, `]`},
		{"both", `[{"a":`, `}]`},
	}
	for _, k := range kinds {
		per := strings.Count(k.open, "{") + strings.Count(k.open, "[")
		for _, limit := range []int{1 + 2, 63, 65, 129, 193, 257, 1025, 10_001} {
			levels := (limit - 1) / per * per
			body := []byte(`{"jsonrpc":"2.0","method":"m","x":` + strings.Repeat(k.open, levels/per) + "0" +
				strings.Repeat(k.shut, levels/per) + `,"id":5}`)
			m, err := Parse(body, 1+levels)
			require.NoError(t, err, "%s, %d levels", k.name, limit)
			require.Equal(t, "5", string(m.ID))

			m, err = Parse(body, levels)
			require.Equal(t, CodeInvalid, err.(*Error).Code)
			require.Contains(t, err.(*Error).Reason, "nested deeper than ")
			require.Equal(t, "5", string(m.ID), "%s: the id is behind what is too deep", k.name)

			// Every closing bracket is checked against its own opening one, wherever that was kept.
			for _, at := range []int{0, 1, 62, 63, 64, 65, 127, 128, 129, 191, 192, levels - 1} {
				if i := len(body) - len(`,"id":5}`) - 1 - at; at >= 0 && at < levels {
					broken := append([]byte(nil), body...)
					broken[i] ^= '}' ^ ']'
					_, err = Parse(broken, 1+levels)
					require.Error(t, err)
					require.Equal(t, CodeParse, err.(*Error).Code, "%s, %d levels, bracket %d from outside", k.name, limit, at)
				}
			}
		}
	}

	t.Run("the message is level 1", func(t *testing.T) {
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"m"}`)
		_, err := Parse(body, 1)
		require.NoError(t, err)
		m, err := Parse(body, 0)
		require.Equal(t, &Error{CodeInvalid, "nested deeper than 0"}, err)
		require.Equal(t, "1", string(m.ID))
	})
	t.Run("empty ones count", func(t *testing.T) {
		_, err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[]}}`), 2)
		require.Equal(t, &Error{CodeInvalid, "nested deeper than 2"}, err)
	})
	t.Run("siblings do not", func(t *testing.T) {
		_, err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[],"b":[[],{}],"c":{}},"d":{}}`), 4)
		require.NoError(t, err)
	})
	t.Run("the limit is named", func(t *testing.T) {
		_, err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}}`), 64)
		require.Equal(t, &Error{CodeInvalid, "nested deeper than 64"}, err)
	})
}

// A field's capacity ends with it: appending to one never writes over what stands behind it in the body.
func TestFieldsAreClipped(t *testing.T) {
	clipped := func(fields ...[]byte) {
		for _, f := range fields {
			require.Equal(t, len(f), cap(f), "%s", f)
		}
	}
	body := []byte(`[{"jsonrpc":"2.0","id":1,"method":"m","params":{}},{"jsonrpc":"2.0","id":1,"result":1},{"jsonrpc":"2.0","id":1,"error":{}}] `)
	all, err := ParseBatch(nil, body, testDepth)
	require.NoError(t, err)
	for _, m := range all {
		clipped(m.ID, m.Method, m.Params, m.Result, m.Err, m.Raw)
	}
	v, _ := Field([]byte(`{"a":1,"b":2}`), "a")
	clipped(v)
}

func TestParseDoesNotAllocate(t *testing.T) {
	deep := strings.Repeat(`[{"a":`, 120) + `"😀"` + strings.Repeat(`}]`, 120)
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,2.5,"\u00e4",null,true]}}}`,
		`{"jsonrpc":"2.0","\u0069d":"a","method":"m","other":1,"\ud83d\ude00":2,"params":{}}`,
		`{"jsonrpc":"\u0032.0","id":1,"result":` + deep + `}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"größe"}}`,
	} {
		b := []byte(body)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := Parse(b, 256); err != nil {
				panic(err)
			}
		}), body)
		batch := []byte("[" + body + "," + body + "]")
		dst := make([]Message, 0, 2)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := ParseBatch(dst, batch, 256); err != nil {
				panic(err)
			}
		}), body)
	}
}
