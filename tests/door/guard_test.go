package door_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// untouched is a body that must not be read.
type untouched struct{ t *testing.T }

func (b untouched) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, io.EOF
}

func (b untouched) Close() error { return nil }

// The guard refuses a request in the same way on each verb, and before anything of the request is read: its body, its session, its version.
func TestTheGuardComesFirst(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{AllowedHosts: []string{"inner.example"}})
		id, refused := kit.Open(t, s)
		require.Empty(t, refused)
		before := s.Stats()
		kinds := []struct{ host, origin, option string }{
			{"evil.example", "", "AllowedHosts"},
			{"evil.example:8080", "http://evil.example:8080", "AllowedHosts"},
			{"localhost:8080", "http://evil.example", "AllowedOrigins"},
			{"localhost:8080", "null", "AllowedOrigins"},
			{"inner.example", "https://localhost", "AllowedOrigins"},
		}
		methods := []string{"POST", "GET", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "MCP"}
		for _, kind := range kinds {
			for _, method := range methods {
				r := kit.ToLoopback(kit.Request(t, method, kit.Ping, "Mcp-Protocol-Version", "nonsense", "Content-Type", "text/plain"))
				r.Body = untouched{t}
				r.Host = kind.host
				r.Header.Set("Mcp-Session-Id", id)
				if kind.origin != "" {
					r.Header.Set("Origin", kind.origin)
				}
				w := kit.Serve(s, r)
				require.Equal(t, `403 error(-32600,null) ended`, w.Summary(), "%s %+v", method, kind)
				require.Contains(t, w.Body.String(), kind.option)
				require.Equal(t, http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(w.Body.Len())}}, w.Head)
			}
		}
		after := s.Stats()
		require.EqualValues(t, len(kinds)*len(methods), after.Refused)
		after.Refused = before.Refused
		require.Equal(t, before, after)
		require.Equal(t, http.StatusAccepted, kit.Notify(t, s, id, "notifications/x"), "the session lives")

		r := kit.ToLoopback(kit.InSession(t, id, kit.Ping, "Origin", "http://inner.example:8080"))
		r.Host = "inner.example:8080"
		require.Equal(t, "200 result ended", kit.Serve(s, r).Summary(), "a page of a listed host")
	})
}

// With real sockets: the guard uses the address that a connection came to. So a listener on all addresses is guarded like one on 127.0.0.1 for
// connections to 127.0.0.1. A web page whose host name resolves to 127.0.0.1 makes such connections.
func TestTheGuardOnRealSockets(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", ":0"} {
		t.Run(listen, func(t *testing.T) {
			s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
			lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", listen)
			require.NoError(t, err)
			hs := &http.Server{Handler: http.HandlerFunc(s.Serve), ReadHeaderTimeout: time.Minute}
			ended := make(chan error, 1)
			go func() { ended <- hs.Serve(lis) }()
			_, port, err := net.SplitHostPort(lis.Addr().String())
			require.NoError(t, err)
			for _, test := range []struct {
				host, origin string
				want         string
			}{
				{"127.0.0.1:" + port, "", "HTTP/1.1 200 OK"},
				{"localhost:" + port, "http://localhost:" + port, "HTTP/1.1 200 OK"},
				{"[::1]:" + port, "", "HTTP/1.1 200 OK"},
				{"[::ffff:127.0.0.1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "HTTP/1.1 200 OK"},
				{"evil.example.com", "http://evil.example.com", "HTTP/1.1 403 Forbidden"},
				{"evil.example.com:" + port, "", "HTTP/1.1 403 Forbidden"},
				{"localhost:" + port, "http://evil.example.com", "HTTP/1.1 403 Forbidden"},
			} {
				require.Equal(t, test.want, knock(t, port, test.host, test.origin), "%+v", test)
			}
			require.NoError(t, hs.Close())
			require.ErrorIs(t, <-ended, http.ErrServerClosed)
		})
	}
}

// knock sends an initialize without its body, which it would send only after "100 Continue", and returns the first line of the answer. A request
// that is refused gets no "100 Continue".
func knock(t *testing.T, port, host, origin string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	head := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n", host, len(kit.Initialize))
	if origin != "" {
		head += "Origin: " + origin + "\r\n"
	}
	_, err = io.WriteString(conn, head+"\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	if strings.HasPrefix(line, "HTTP/1.1 100 ") {
		_, err = in.ReadString('\n')
		require.NoError(t, err)
		_, err = io.WriteString(conn, kit.Initialize)
		require.NoError(t, err)
		line, err = in.ReadString('\n')
		require.NoError(t, err)
		require.NotContains(t, line, "403", "refused only after the body was asked for")
	}
	return strings.TrimSpace(line)
}
