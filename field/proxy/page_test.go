//go:build nginx

package proxy

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// The configuration on the page works. The test changes only addresses, certificates and the time-out.
func TestTheConfigurationOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/proxies.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)```nginx\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, found)
	conf := string(found[1])
	for from, to := range map[string]string{
		"127.0.0.1:8080": "%s", "listen 443 ssl;": "include server.conf;", "proxy_read_timeout 60s;": "proxy_read_timeout 2s;",
	} {
		require.Contains(t, conf, from)
		conf = strings.ReplaceAll(conf, from, to)
	}
	t.Run("events", func(t *testing.T) {
		t.Parallel()
		app, seen := stepByStep()
		_, address := serve(t, app, rejoin.Config{KeepAlive: time.Second})
		n := run(t, address, http2, settings{location: conf})
		requireStepByStep(t, post(t, n, open(t, n), request), seen)
	})
	for name, allowed := range map[string][]string{"refused": nil, "allowed": {"mcp.example.com"}} {
		t.Run("a host that is "+name, func(t *testing.T) {
			t.Parallel()
			_, address := serve(t, own(nil), rejoin.Config{AllowedHosts: allowed})
			n := run(t, address, http2, settings{location: conf})
			r := message(t, n, http.MethodPost, "", hello)
			r.Host = "mcp.example.com"
			want := http.StatusForbidden
			if allowed != nil {
				want = http.StatusOK
			}
			require.Equal(t, want, do(t, n, r).StatusCode)
		})
	}
}
