package reports

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// A proxy on the same machine sends its own host to a loopback address. Config.AllowedHosts lists the hosts that are allowed, for both eras.
// No SDK behind rejoin refuses them again. Every other host is refused, and the refusal names the option. The test uses real sockets, because
// the check depends on the address that a request came to.
func TestTheListOfHostsIsTheOnlyCheck(t *testing.T) {
	for sdk, app := range apps {
		for name, mount := range routers {
			t.Run(sdk+", "+name, func(t *testing.T) {
				s := newServer(t, app(), rejoin.Config{Eras: rejoin.EraBoth, AllowedHosts: []string{"mcp.example", "10.1.2.3"}})
				web := httptest.NewServer(mount(s))
				defer web.Close()
				at, err := url.Parse(web.URL + "/mcp")
				require.NoError(t, err)
				for host, allowed := range map[string]bool{
					"mcp.example": true, "mcp.example:8443": true, "MCP.EXAMPLE.": true, "10.1.2.3:80": true,
					"localhost": true, "localhost.": true, "[::1]:" + at.Port(): true, "[::ffff:127.0.0.1]:1": true, "127.0.0.1": true, "127.1.2.3": true,
					"evil.example": false, "mcp.example.evil": false, "xmcp.example": false, "localhost.evil": false, "10.1.2.4": false, "0.0.0.0": false,
					"127.0.0.1.evil": false, "[::]": false,
				} {
					old := message(t, http.MethodPost, "", initialize)
					for era, r := range map[string]*http.Request{"sessions": old, "modern": modern(t, "tools/call", "quick")} {
						r.URL = at
						r.Host = host
						res, err := web.Client().Do(r)
						require.NoError(t, err)
						body, err := io.ReadAll(res.Body)
						require.NoError(t, err)
						require.NoError(t, res.Body.Close())
						if allowed {
							require.Equal(t, http.StatusOK, res.StatusCode, "%s, %s: %s", host, era, body)
							continue
						}
						require.Equal(t, http.StatusForbidden, res.StatusCode, "%s, %s: %s", host, era, body)
						require.Contains(t, string(body), "Config.AllowedHosts")
					}
				}
			})
		}
	}
}

// A session id alone is worth nothing: for another user, and without a user, the session does not exist, on every verb and on each router, and
// its owner notices nothing.
func TestASessionIDAloneIsWorthNothing(t *testing.T) {
	onEachRouter(t, func(t *testing.T, mount func(*rejoin.Server) http.Handler) {
		user := func(r *http.Request) string { return r.Header.Get("X-User") }
		c := rejointest.New(t, slow(), rejointest.Config{
			Handler: mount, Server: rejoin.Config{Principal: user}, Header: http.Header{"X-User": {"alice"}},
		})
		listen, own := c.Listen(), c.CallTool("x", nil)
		own.WaitMessages(1)
		for _, who := range []string{"bob", "", "Alice", "alice "} {
			for verb, r := range map[string]*http.Request{
				"request":      message(t, http.MethodPost, "", ping),
				"notification": message(t, http.MethodPost, "", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`),
				"listen":       message(t, http.MethodGet, "", ""),
				"resume":       message(t, http.MethodGet, "", "", "Last-Event-ID", own.IDs()[0]),
				"delete":       message(t, http.MethodDelete, "", ""),
			} {
				r.Header.Set("X-User", strings.ReplaceAll(who, " ", "_"))
				res := c.Do(r)
				body, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				require.Equal(t, http.StatusNotFound, res.StatusCode, "%s, %q: %s", verb, who, body)
				require.Contains(t, string(body), "-32001")
			}
		}
		require.Equal(t, 1, listen.Open())
		require.Equal(t, 1, own.Open())
		require.JSONEq(t, "{}", string(own.Result()))
	})
}
