package load_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
)

func TestRequestsAreWhatNetHTTPReads(t *testing.T) {
	for _, test := range []struct {
		raw                                 []byte
		method, session, last, accept, body string
	}{
		{load.Post("s", []byte("{}")), "POST", "s", "", "application/json, text/event-stream", "{}"},
		{load.Post("", []byte("[]")), "POST", "", "", "application/json, text/event-stream", "[]"},
		{load.Get("s", ""), "GET", "s", "", "text/event-stream", ""},
		{load.Get("s", "7"), "GET", "s", "7", "text/event-stream", ""},
		{load.Delete("s"), "DELETE", "s", "", "", ""},
	} {
		in := bufio.NewReader(bytes.NewReader(test.raw))
		r, err := http.ReadRequest(in)
		require.NoError(t, err, "%s", test.raw)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, test.body, string(body))
		require.Equal(t, test.method, r.Method)
		require.Equal(t, "/mcp", r.URL.Path)
		require.Equal(t, load.Protocol, r.Header.Get("Mcp-Protocol-Version"))
		require.Equal(t, test.session, r.Header.Get("Mcp-Session-Id"))
		require.Equal(t, test.last, r.Header.Get("Last-Event-ID"))
		require.Equal(t, test.accept, r.Header.Get("Accept"))
		require.Zero(t, in.Buffered(), "bytes after the request")
	}
}

func TestACallIsJSON(t *testing.T) {
	var call struct {
		ID     int
		Params struct {
			Name      string
			Arguments map[string]string
			Meta      map[string]int `json:"_meta"`
		}
	}
	require.NoError(t, json.Unmarshal(load.Call(12, "echo", `{"text":"t"}`), &call))
	require.Equal(t, 12, call.ID)
	require.Equal(t, "echo", call.Params.Name)
	require.Equal(t, map[string]string{"text": "t"}, call.Params.Arguments)
	require.Equal(t, map[string]int{"progressToken": 12}, call.Params.Meta)
}

func TestATemplateChangesItsNumberEverywhere(t *testing.T) {
	template := load.NewTemplate([]byte("a 100000000 b 100000000100000000"))
	require.Equal(t, "123456789", string(template.Set(123456789)))
	require.Equal(t, "a 123456789 b 123456789123456789", string(template.Raw))
	template.Set(load.Number)
	require.Equal(t, "a 100000000 b 100000000100000000", string(template.Raw))
}
