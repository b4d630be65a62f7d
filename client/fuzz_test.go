package client_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// FuzzServer answers a call with whatever bytes, and each poll with the same. The client ends at the latest with its context, and dials
// nobody else.
func FuzzServer(f *testing.F) {
	const sse, json = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
	for _, seed := range []string{
		"", sse, json, sse + event("b", done), json + done, sse + primer("a"), sse + "retry: 0\n\n" + primer("a"), sse + event("a", note(1)),
		sse + event("a", ask("1", "ping")), sse + "id: a\nretry: 1000000000000\ndata: \n\n", sse + event("a", "["+note(1)+","+done+"]"),
		"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 503 No\r\nRetry-After: 99999999999999999999\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\n\r\n", "HTTP/1.1 307 T\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nid: a\r\n0\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		synctest.Test(t, func(t *testing.T) {
			w, hc := talking(t, func(c net.Conn) { talk(c, answer) })
			s, err := client.Connect(t.Context(), address, client.Config{
				HTTP: hc, MaxEventBytes: 64 * kilobyte, Attempts: 4, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			begun := time.Now()
			_ = s.Do(ctx, "tools/call", nil, nil)
			require.LessOrEqual(t, time.Since(begun), 5*time.Minute)
			_ = s.Close(ctx)
			w.mu.Lock()
			defer w.mu.Unlock()
			require.Len(t, w.hosts, 1)
		})
	})
}

// talking is a network on which each connection is answered by talk.
func talking(t *testing.T, talk func(net.Conn)) (*wire, *http.Client) {
	t.Helper()
	w, hc := network(t)
	go func() {
		for {
			c, err := w.Accept()
			if err != nil {
				return
			}
			go talk(c)
		}
	}()
	return w, hc
}

// talk initializes a session as it should be, and answers everything else so.
func talk(c net.Conn, answer []byte) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	text, _ := io.ReadAll(r.Body)
	if bytes.Contains(text, []byte(`"server/discover"`)) {
		_, _ = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		return
	}
	if bytes.Contains(text, []byte(`"initialize"`)) || bytes.Contains(text, []byte("notifications/")) {
		body := `{"jsonrpc":"2.0","id":1,"result":` + initialized("2025-11-25") + `}`
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nMcp-Session-Id: sid\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"+body)
		return
	}
	_, _ = c.Write(answer)
}
