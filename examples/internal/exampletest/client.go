package exampletest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

const (
	protocol   = "2025-11-25"
	maxEvent   = 1 << 20
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + protocol +
		`","capabilities":{},"clientInfo":{"name":"exampletest","version":"1"}}}`
)

// site is a running example.
type site struct {
	ctx context.Context
	url string
}

type request struct {
	method, path, token, body string
	header                    map[string]string
}

func (site *site) do(t *testing.T, what request) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(site.ctx, what.method, site.url+what.path, strings.NewReader(what.body))
	require.NoError(t, err)
	if strings.HasPrefix(what.path, "/mcp") {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Content-Type", "application/json")
	}
	if what.token != "" {
		r.Header.Set("Authorization", "Bearer "+what.token)
	}
	for name, value := range what.header {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	return res
}

// session is a client with a session.
type session struct {
	*site
	token, id string
}

func open(t *testing.T, site *site, token string) *session {
	t.Helper()
	res := site.do(t, request{method: http.MethodPost, path: "/mcp", token: token, body: initialize})
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	s := &session{site, token, res.Header.Get("Mcp-Session-Id")}
	require.NotEmpty(t, s.id)
	res = s.do(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "")
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusAccepted, res.StatusCode)
	return s
}

func (s *session) end(t *testing.T) {
	t.Helper()
	res := s.do(t, http.MethodDelete, "", "")
	require.NoError(t, res.Body.Close())
	require.Equal(t, 2, res.StatusCode/100, "DELETE: %s", res.Status)
}

func (s *session) do(t *testing.T, method, body, cursor string) *http.Response {
	t.Helper()
	header := map[string]string{"Mcp-Session-Id": s.id, "Mcp-Protocol-Version": protocol}
	if cursor != "" {
		header["Last-Event-ID"] = cursor
	}
	return s.site.do(t, request{method: method, path: "/mcp", token: s.token, body: body, header: header})
}

// call calls the tool of the router examples, which runs for so many seconds.
func (s *session) call(t *testing.T, seconds string) *stream {
	t.Helper()
	return s.callTool(t, "greet", seconds)
}

// callTool calls a tool that runs for so many seconds, with a progress token.
func (s *session) callTool(t *testing.T, name, seconds string) *stream {
	t.Helper()
	return s.stream(t, http.MethodPost, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"`+name+`","arguments":{"seconds":`+
		seconds+`},"_meta":{"progressToken":"p"}}}`, "")
}

// listen requests the standalone stream.
func (s *session) listen(t *testing.T) *stream {
	t.Helper()
	return s.stream(t, http.MethodGet, "", "")
}

// poll polls, without the delay that it was told, until the result is there. It returns the text of the result and the values of all
// progress, including that of the first stream.
func (s *session) poll(t *testing.T, at *stream) (text string, steps []int) {
	t.Helper()
	steps = at.steps
	for at.result == nil {
		at = s.stream(t, http.MethodGet, "", at.cursor)
		at.toEnd(t)
		steps = append(steps, at.steps...)
	}
	require.Len(t, at.result.Content, 1)
	return at.result.Content[0].Text, steps
}

func (s *session) stream(t *testing.T, method, body, cursor string) *stream {
	t.Helper()
	res := s.do(t, method, body, cursor)
	t.Cleanup(func() { _ = res.Body.Close() }) // an error says nothing about the test
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	return &stream{events: sse.NewReader(res.Body, maxEvent), cursor: cursor}
}

// stream is a response that is a stream, and what was read of it.
type stream struct {
	events *sse.Reader
	cursor string        // the last event id
	retry  time.Duration // the last retry
	steps  []int         // the values of progress
	result *result
}

type result struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
}

// toEnd reads to the end of the stream.
func (s *stream) toEnd(t *testing.T) {
	t.Helper()
	for s.next(t) {
	}
}

// next reads one event. It returns false if the stream has ended between two events.
func (s *stream) next(t *testing.T) bool {
	t.Helper()
	ev, err := s.events.Next()
	if errors.Is(err, io.EOF) {
		return false
	}
	require.NoError(t, err)
	if ev.HasID {
		s.cursor = ev.ID
	}
	if ev.Retry >= 0 {
		s.retry = ev.Retry
	}
	if len(ev.Data) == 0 {
		return true
	}
	var message struct {
		Params struct {
			Progress int `json:"progress"`
		} `json:"params"`
		Result *result         `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	require.NoError(t, json.Unmarshal(ev.Data, &message))
	require.Nil(t, message.Error, "the call failed: %s", message.Error)
	if message.Result != nil {
		s.result = message.Result
	} else {
		s.steps = append(s.steps, message.Params.Progress)
	}
	return true
}
