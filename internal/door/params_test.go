package door

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeadersOfArguments(t *testing.T) {
	all, err := ParamHeaders([]byte(`{"type":"object","properties":{
		"city":{"type":"string","x-mcp-header":"City"},"plain":{"type":"string"},
		"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"count"},"any":true}},"on":{"type":"boolean","x-mcp-header":"On"}}}`))
	require.NoError(t, err)
	require.Len(t, all, 3)
	fault := func(arguments string, header http.Header) string {
		for _, p := range all {
			if said := p.Fault(header, []byte(arguments)); said != "" {
				return said
			}
		}
		return ""
	}
	const given = `{"city":"a,b","deep":{"n":7},"on":false}`
	right := func() http.Header {
		return http.Header{"Mcp-Param-City": {"a,b"}, "Mcp-Param-Count": {"7"}, "Mcp-Param-On": {"false"}}
	}
	require.Empty(t, fault(given, right()))
	require.Empty(t, fault(`{}`, http.Header{}))
	require.Empty(t, fault(``, http.Header{"Mcp-Param-City": {""}}))
	require.Empty(t, fault(`{"city":null,"deep":17}`, http.Header{}))
	for _, test := range []struct{ field, value, want string }{
		{"Mcp-Param-City", "=?base64?YSxi?=", ""},
		{"Mcp-Param-City", " a,b ", ""},
		{"Mcp-Param-City", "=?base64?YSxi", "Mcp-Param-City differs from the body"},
		{"Mcp-Param-City", "YSxi", "Mcp-Param-City differs from the body"},
		{"Mcp-Param-City", "=?base64?YSxi=?=", "Mcp-Param-City is not valid base64"},
		{"Mcp-Param-City", "=?base64?YS!i?=", "Mcp-Param-City is not valid base64"},
		{"Mcp-Param-Count", "7.0", ""},
		{"Mcp-Param-Count", "8", "Mcp-Param-Count differs from the body"},
		{"Mcp-Param-Count", "x", "Mcp-Param-Count differs from the body"},
		{"Mcp-Param-On", "true", "Mcp-Param-On differs from the body"},
	} {
		h := right()
		h.Set(test.field, test.value)
		require.Equal(t, test.want, fault(given, h), test)
	}
	h := right()
	h.Add("Mcp-Param-City", "c")
	require.Equal(t, "Mcp-Param-City differs from the body", fault(given, h))
	h = right()
	h.Del("Mcp-Param-On")
	require.Equal(t, "Mcp-Param-On is missing", fault(given, h))
	require.Equal(t, "Mcp-Param-City is there without its argument", fault(`{"deep":{"n":7},"on":false}`, right()))
	require.Equal(t, "Mcp-Param-Count differs from the body", fault(`{"city":"a,b","deep":{"n":[7]},"on":false}`, right()))
}

func TestWrongHeadersOfArguments(t *testing.T) {
	for property, says := range map[string]string{
		`{"type":"string","x-mcp-header":""}`:      "must be the end of a header field's name",
		`{"type":"string","x-mcp-header":"a b"}`:   "must be the end of a header field's name",
		`{"type":"string","x-mcp-header":"ü"}`:     "must be the end of a header field's name",
		`{"type":"string","x-mcp-header":1}`:       "must be the end of a header field's name",
		`{"type":"number","x-mcp-header":"a"}`:     "type string, integer or boolean",
		`{"x-mcp-header":"a"}`:                     "type string, integer or boolean",
		`{"type":"boolean","x-mcp-header":"same"}`: "comes twice",
	} {
		schema := `{"properties":{"deep":{"properties":{"x":` + property + `}},"y":{"type":"string","x-mcp-header":"Same"}}}`
		require.True(t, json.Valid([]byte(schema)))
		_, err := ParamHeaders([]byte(schema))
		require.ErrorContains(t, err, says, property)
	}
}
