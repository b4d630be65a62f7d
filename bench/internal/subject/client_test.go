package subject

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is the deadline of everything that a test waits for. It is far beyond what that takes.
const patience = time.Minute

// client is a client of one subject, over a real net/http server.
type client struct {
	t       *testing.T
	url     string
	opens   string // the URL where it opens its session
	owner   *Owner
	gate    *Gate
	session string
	last    int // id of the newest request
}

func serve(t *testing.T, s Subject, storeBytes int64) *client {
	t.Helper()
	gate, owner := NewGate(), &Owner{}
	o := Options{StoreBytes: storeBytes, Gate: gate, Owner: owner}
	if s.Redis {
		o.Redis = engineAddr(t)
	}
	h, err := s.New(o)
	require.NoError(t, err)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(gate.Open)
	require.Equal(t, s.Forward, owner.Addr() != "")
	opens := server.URL
	if s.Forward {
		opens = "http://" + owner.Addr()
	}
	return &client{t: t, url: server.URL + Path, opens: opens + Path, owner: owner, gate: gate}
}

// connections are those of all clients. httptest.Server.Close ends unused connections of http.DefaultTransport, also those that another test is about to
// use.
var connections = &http.Client{Transport: &http.Transport{}}

// open opens a session, and returns the result of initialize.
func (c *client) open() (result map[string]any) {
	c.t.Helper()
	url := c.url
	c.url = c.opens
	a := c.post(c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`))
	c.url = url
	require.Equal(c.t, http.StatusOK, a.status)
	c.session = a.header.Get("Mcp-Session-Id")
	messages := a.all()
	require.Len(c.t, messages, 1, "initialize answers, and nothing else")
	require.NoError(c.t, json.Unmarshal(messages[0].Result, &result))
	a = c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	require.Equal(c.t, http.StatusAccepted, a.status)
	a.all()
	return result
}

func (c *client) request(method, params string) string {
	c.last++
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.last, method, params)
}

func (c *client) call(tool, arguments string) *answer {
	c.t.Helper()
	a := c.post(c.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":"t%d"}}`, tool, arguments, c.last+1)))
	require.Equal(c.t, http.StatusOK, a.status)
	return a
}

func (c *client) post(body string) *answer { return c.do(http.MethodPost, body, "") }

func (c *client) resume(id string) *answer {
	c.t.Helper()
	a := c.do(http.MethodGet, "", id)
	require.Equal(c.t, http.StatusOK, a.status, "GET after %s", id)
	require.True(c.t, a.stream)
	return a
}

// do sends a request. header has more fields, or others: names and values in turn.
func (c *client) do(method, body, lastEventID string, header ...string) *answer {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	require.NoError(c.t, err)
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := connections.Do(r)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = res.Body.Close() })
	return &answer{
		t: c.t, status: res.StatusCode, header: res.Header, body: bufio.NewReader(res.Body), number: c.last,
		stream: strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"),
	}
}

// answer is a response that is being read.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	stream bool
	number int // id of the request
	body   *bufio.Reader

	ids    []string // of all events so far
	primed int      // primers among them
	retry  time.Duration
}

// message is a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	event  string          // the id of its event
}

// next reads one message, or a primer, which is nil.
func (a *answer) next() (*message, error) {
	if !a.stream {
		return a.plain()
	}
	var id, data string
	var has bool
	for {
		line, err := a.body.ReadString('\n')
		if err != nil {
			if err == io.EOF && line == "" && !has {
				return nil, io.EOF
			}
			return nil, fmt.Errorf("cut within an event: %w", err)
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id, has = value, true
			a.ids = append(a.ids, id)
		case "data":
			data, has = data+value, true
		case "retry":
			millis, err := strconv.Atoi(value)
			require.NoError(a.t, err)
			a.retry = time.Duration(millis) * time.Millisecond
		case "":
			if line == "\n" && has && data == "" {
				if id == "" { // go-sdk's event "close", which has the retry
					has = false
					continue
				}
				a.primed++
				return nil, nil
			}
			if line == "\n" && has {
				return a.decode(id, data)
			}
		}
	}
}

func (a *answer) plain() (*message, error) {
	data, err := io.ReadAll(a.body)
	require.NoError(a.t, err)
	if len(data) == 0 {
		return nil, io.EOF
	}
	return a.decode("", string(data))
}

func (a *answer) decode(id, data string) (*message, error) {
	m := &message{event: id}
	require.NoError(a.t, json.Unmarshal([]byte(data), m), data)
	return m, nil
}

// all reads to the end.
func (a *answer) all() (messages []*message) {
	a.t.Helper()
	for {
		m, err := a.next()
		if err == io.EOF {
			return messages
		}
		require.NoError(a.t, err)
		if m != nil {
			messages = append(messages, m)
		}
	}
}

// text is the content of the answer to request number.
func (m *message) text(t *testing.T, number int) string {
	t.Helper()
	require.Empty(t, string(m.Error))
	require.Equal(t, strconv.Itoa(number), string(m.ID), "it answers the request")
	var result struct {
		Content []textContent `json:"content"`
		IsError bool          `json:"isError"`
	}
	require.NoError(t, json.Unmarshal(m.Result, &result))
	require.False(t, result.IsError, string(m.Result))
	require.Len(t, result.Content, 1)
	require.Equal(t, "text", result.Content[0].Type)
	return result.Content[0].Text
}
