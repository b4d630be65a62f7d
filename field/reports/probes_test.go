package reports

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// Requests of load balancers and browsers get an answer that ends, so they do not wait for a stream, and the connection can be used again.
// The test uses real sockets, with HTTP/1.1 and HTTP/2, because net/http decides about the use of connections.
func TestProbesAreAnsweredAndTheirConnectionIsUsedAgain(t *testing.T) {
	for name, mount := range routers {
		for _, version := range []int{1, 2} {
			t.Run(name+map[int]string{1: ", HTTP/1.1", 2: ", HTTP/2"}[version], func(t *testing.T) {
				s := newServer(t, slow(), rejoin.Config{})
				web := httptest.NewUnstartedServer(mount(s))
				web.EnableHTTP2 = version == 2
				web.StartTLS()
				defer web.Close()
				conn := &http.Transport{
					TLSClientConfig: &tls.Config{RootCAs: web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
					MaxConnsPerHost: 1, ForceAttemptHTTP2: version == 2,
				}
				defer conn.CloseIdleConnections()
				sent := 0
				send := func(method, body string, header ...string) (string, *http.Response) {
					r := message(t, method, web.URL+"/mcp", body, header...)
					r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
						require.Equal(t, sent > 0, c.Reused, "%s %v", method, header)
					}}))
					res, err := conn.RoundTrip(r)
					require.NoError(t, err)
					require.Equal(t, version, res.ProtoMajor)
					sent++
					got, err := io.ReadAll(res.Body)
					require.NoError(t, err)
					require.NoError(t, res.Body.Close())
					return string(got), res
				}
				_, res := send(http.MethodPost, initialize)
				session := []string{"Mcp-Session-Id", res.Header.Get("Mcp-Session-Id")}
				for _, header := range [][]string{nil, session} {
					for _, test := range []struct {
						method, accept, body string
						status               int
					}{
						{http.MethodHead, "*/*", "", 405},
						{http.MethodHead, "text/event-stream", "", 405},
						{http.MethodTrace, "", "", 405},
						{http.MethodOptions, "*/*", "", 405},
						{http.MethodPut, "*/*", ping, 405},
						{http.MethodPatch, "*/*", strings.Repeat(" ", 100_000), 405},
						{http.MethodGet, "text/html,application/xhtml+xml", "", 406},
						{http.MethodGet, "application/json", "", 406},
						{http.MethodPost, "text/html", ping, map[bool]int{true: 406, false: 400}[header != nil]},
					} {
						body, res := send(test.method, test.body, append([]string{"Accept", test.accept}, header...)...)
						require.Equal(t, test.status, res.StatusCode, "%+v", test)
						require.Equal(t, "application/json", res.Header.Get("Content-Type"), "%+v", test)
						require.Equal(t, test.method == http.MethodHead, body == "", "%+v", test)
						if test.status == http.StatusMethodNotAllowed {
							require.Equal(t, "GET, POST, DELETE", res.Header.Get("Allow"))
						}
					}
				}
				body, _ := send(http.MethodGet, "", "Accept", "*/*")
				require.Contains(t, body, "initialize", "nor does a probe that takes anything get a stream: it has no session")
				body, _ = send(http.MethodPost, ping, session...)
				require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"result":{}}`, body)
				require.EqualValues(t, 1, s.Stats().Sessions)
				require.Eventually(t, func() bool { return s.Stats().Connections == 0 }, 30*time.Second, time.Millisecond)
			})
		}
	}
}
