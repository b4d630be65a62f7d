package load_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
)

// dial connects to a real server over a socket. The deadline is far beyond what a test takes.
func dial(t *testing.T, handler http.HandlerFunc) *load.Conn {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return connect(t, strings.TrimPrefix(s.URL, "http://"))
}

func connect(t *testing.T, addr string) *load.Conn {
	t.Helper()
	c, err := load.Dial(addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

// bytesOf connects to a server that answers with these bytes, whatever the request is.
func bytesOf(t *testing.T, response string) *load.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err == nil {
			io.WriteString(c, response)
			c.Close()
		}
	}()
	return connect(t, l.Addr().String())
}

func get(t *testing.T, c *load.Conn) load.Head {
	t.Helper()
	require.NoError(t, c.Send(load.Get("s", "")))
	h, err := c.Head()
	require.NoError(t, err)
	return h
}

func TestResponsesOfEachShapeFollowOneAnotherOnAConnection(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000)
	n := 0
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		switch n % 4 {
		case 0:
			w.Header().Set("Mcp-Session-Id", "the session")
			io.WriteString(w, "short")
		case 1:
			io.WriteString(w, long) // too long for a length: chunked
		case 2:
			w.WriteHeader(http.StatusNoContent)
		case 3:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	for range 3 {
		h := get(t, c)
		require.Equal(t, load.Head{Status: 200, Length: -1}, h)
		body, err := c.Body([]byte("before "))
		require.NoError(t, err)
		require.Equal(t, "before "+long, string(body))

		require.Equal(t, load.Head{Status: 204}, get(t, c))
		body, err = c.Body(nil)
		require.NoError(t, err)
		require.Empty(t, body)

		require.NoError(t, c.Accepted(load.Get("s", "")))

		h = get(t, c)
		require.Equal(t, load.Head{Status: 200, Length: 5, Session: "the session"}, h)
		body, err = c.Body(nil)
		require.NoError(t, err)
		require.Equal(t, "short", string(body))
	}
}

func TestEventsOfAStream(t *testing.T) {
	long := strings.Repeat("x", 100_000) // longer than any buffer
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, part := range []string{": comment\n\n", "id: 1\n", "data:\n\n", "retry: 1500\n\n", "event: message\r\nid: 2\r\ndata: one\r\ndata:two\r\n\r\n", "id: 3\ndata: ", long, "\n\n", "data: cut off"} {
			io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	})
	for range 2 { // and then the connection can be used again
		h := get(t, c)
		require.True(t, h.Stream)
		for _, want := range []load.Event{
			{ID: "1", Data: []byte{}},
			{Retry: 1500 * time.Millisecond, Data: []byte{}},
			{ID: "2", Data: []byte("one\ntwo")},
			{ID: "3", Data: []byte(long)},
		} {
			e, err := c.Next()
			require.NoError(t, err)
			require.Equal(t, string(want.Data), string(e.Data))
			require.Equal(t, [2]any{want.ID, want.Retry}, [2]any{e.ID, e.Retry})
		}
		_, err := c.Next()
		require.ErrorIs(t, err, io.EOF)
	}
}

func TestTheLastMessageIsTheAnswer(t *testing.T) {
	stream := true
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "id: 1\ndata:\n\ndata: notification\n\ndata: answer\n\nretry: 1\n\n")
			return
		}
		io.WriteString(w, "answer")
	})
	for range 2 {
		got, err := c.Answer(get(t, c))
		require.NoError(t, err)
		require.Equal(t, "answer", string(got))
		stream = !stream
	}
}

func TestAResponseThatIsCutOffIsAnError(t *testing.T) {
	for _, response := range []string{
		"", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfour",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n",
	} {
		c := bytesOf(t, response)
		_, err := c.Head()
		if err == nil {
			_, err = c.Body(nil)
		}
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%q", response)
	}
	c := bytesOf(t, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ndata: a\n\r\n")
	_, err := c.Head()
	require.NoError(t, err)
	_, err = c.Next()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestABodyMayEndWithTheConnection(t *testing.T) {
	c := bytesOf(t, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it")
	h, err := c.Head()
	require.NoError(t, err)
	require.Equal(t, load.Head{Status: 200, Length: -1, Close: true}, h)
	body, err := c.Body(nil)
	require.NoError(t, err)
	require.Equal(t, "all of it", string(body))
}

func TestNoHTTPIsAnError(t *testing.T) {
	_, err := bytesOf(t, "SSH-2.0-OpenSSH\r\n").Head()
	require.ErrorContains(t, err, "SSH-2.0")
}

func TestOpenChecksWhatItIsTold(t *testing.T) {
	status, version, later := 200, load.Protocol, 202
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("notifications/initialized")) {
			w.WriteHeader(later)
			fmt.Fprintf(w, "session %q, version %q", r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Protocol-Version"))
			return
		}
		w.Header().Set("Mcp-Session-Id", "s1")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"result":{"protocolVersion":"%s"}}`, version)
	})
	session, err := load.Open(c)
	require.NoError(t, err)
	require.Equal(t, "s1", session)

	later = 400
	_, err = load.Open(c)
	require.ErrorContains(t, err, `status 400: session "s1", version "2025-11-25"`)

	version = "2024-11-05"
	_, err = load.Open(c)
	require.ErrorContains(t, err, "2024-11-05")

	status = 503
	_, err = load.Open(c)
	require.ErrorContains(t, err, "status 503")
}
