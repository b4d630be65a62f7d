// Package erastest checks what the fixture servers do in both eras. The suite checks everything; these tests are faster, and need no node.
package erastest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// Run opens a session with one request and lists the tools without a session with the next.
func Run(t *testing.T, app rejoin.App) {
	t.Helper()
	s := serve(t, app)
	status, answer := s.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, `"protocolVersion":"2025-11-25"`)
	status, answer = s.modern(t, "tools/list", "", "")
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, `"test_reconnection"`)
}

// Jobs calls the tools of the scenarios of tasks, as a client that cannot be given a task. So it sees when and what they answer themselves.
func Jobs(t *testing.T, newApp func() rejoin.App) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, newApp())
		done := s.call(t, "greet", `"arguments":{"name":"World"}`, 0)
		require.Equal(t, "Hello, World!", done.text(t))
		done = s.call(t, "slow_compute", `"arguments":{"seconds":2,"label":"all"}`, 2*time.Second)
		require.Equal(t, "all is done after 2 s.", done.text(t))
		done = s.call(t, "slow_compute", `"arguments":{"seconds":0}`, 0)
		require.NotEmpty(t, done.text(t))

		done = s.call(t, "failing_job", `"arguments":{}`, sample.Long)
		require.True(t, done.Result.IsError, "the tool fails, not the call")
		require.NotEmpty(t, done.text(t))
		done = s.call(t, "protocol_error_job", `"arguments":{}`, sample.Long)
		require.Equal(t, -32603, done.Error.Code, "the call fails, not the tool")

		done = s.call(t, "confirm_delete", `"arguments":{"filename":"a"}`, sample.Long)
		require.Equal(t, []string{"confirm"}, done.asked(t))
		done = s.call(t, "confirm_delete", `"arguments":{"filename":"a"},`+answers("confirm", `{"confirm":true}`), 0)
		require.Equal(t, "Confirmed: true.", done.text(t))

		done = s.call(t, "multi_input", `"arguments":{}`, sample.Long)
		require.ElementsMatch(t, []string{"first", "second"}, done.asked(t))
		done = s.call(t, "multi_input", `"arguments":{},`+answers("first", `{"name":"Ann"}`, "second", `{"name":"Bob"}`), 0)
		require.Equal(t, "Ann and Bob.", done.text(t))

		done = s.call(t, "test_tool_with_task", `"arguments":{}`, 0)
		require.Equal(t, []string{"user_name"}, done.asked(t))
		state, err := json.Marshal(done.Result.State)
		require.NoError(t, err)
		done = s.call(t, "test_tool_with_task",
			fmt.Sprintf(`"arguments":{},"requestState":%s,%s`, state, answers("user_name", `{"name":"Alice"}`)), sample.Long)
		require.Equal(t, "The work for Alice is done.", done.text(t))
	})
}

// served is an app behind rejoin, for both eras.
type served struct{ http.Handler }

func serve(t *testing.T, app rejoin.App) served {
	t.Helper()
	srv, err := rejoin.NewServer(app, rejoin.Config{Eras: rejoin.EraBoth})
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	return served{stdadapter.New(srv)}
}

// post returns the status and the body of the answer.
func (s served) post(t *testing.T, body string, header ...string) (status int, answer string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// modern sends a request of version 2026-07-28. The params are members of an object; name is that of a tool, if there is one.
func (s served) modern(t *testing.T, method, name, params string) (status int, answer string) {
	t.Helper()
	header := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
		params = fmt.Sprintf(`"name":%q,%s,`, name, params)
	}
	return s.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, method, params), header...)
}

// outcome is the answer to a call.
type outcome struct {
	Result struct {
		Type      string `json:"resultType"`
		IsError   bool   `json:"isError"`
		State     string `json:"requestState"`
		Questions map[string]struct {
			Method string `json:"method"`
		} `json:"inputRequests"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error struct {
		Code int `json:"code"`
	} `json:"error"`
}

// call calls a tool, which must take as long as is said.
func (s served) call(t *testing.T, tool, params string, takes time.Duration) (o outcome) {
	t.Helper()
	start := time.Now()
	_, answer := s.modern(t, "tools/call", tool, params)
	require.Equal(t, takes, time.Since(start), "%s answers %s", tool, answer)
	if i := strings.LastIndex(answer, "data: "); i >= 0 { // a stream of one event
		answer = answer[i+len("data: "):]
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &o), answer)
	return o
}

// text returns the text of a result that is complete.
func (o outcome) text(t *testing.T) string {
	t.Helper()
	require.Equal(t, "complete", o.Result.Type, "%+v", o)
	require.Len(t, o.Result.Content, 1, "%+v", o)
	return o.Result.Content[0].Text
}

// asked returns the keys of the questions in a result.
func (o outcome) asked(t *testing.T) (keys []string) {
	t.Helper()
	require.Equal(t, "input_required", o.Result.Type, "%+v", o)
	for key, question := range o.Result.Questions {
		require.Equal(t, "elicitation/create", question.Method)
		keys = append(keys, key)
	}
	return keys
}

// answers accepts the questions with these keys, with this content.
func answers(keysAndContents ...string) string {
	var list []string
	for i := 0; i < len(keysAndContents); i += 2 {
		list = append(list, fmt.Sprintf(`%q:{"action":"accept","content":%s}`, keysAndContents[i], keysAndContents[i+1]))
	}
	return `"inputResponses":{` + strings.Join(list, ",") + `}`
}
