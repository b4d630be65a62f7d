package rejoin

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGuard(t *testing.T) {
	loopback, public := net.IPv4(127, 0, 0, 1), net.IPv4(192, 0, 2, 1)
	for _, tt := range []struct {
		name   string
		listen net.IP
		host   string
		origin string
		pass   bool
	}{
		{"no browser on loopback", loopback, "localhost:8080", "", true},
		{"an address", loopback, "127.0.0.1:8080", "", true},
		{"another loopback address", loopback, "127.9.9.9", "", true},
		{"IPv6", loopback, "[::1]:8080", "", true},
		{"IPv6 without a port", loopback, "[::1]", "", true},
		{"IPv4-mapped", loopback, "[::ffff:127.0.0.1]:80", "", true},
		{"a final dot and capitals", loopback, "LocalHost.:1", "", true},
		{"a rebound name", loopback, "evil.example:8080", "", false},
		{"a name that looks like one", loopback, "localhost.evil.example", "", false},
		{"a public address", loopback, "192.0.2.1", "", false},
		{"an empty one", loopback, "", "", false},
		{"listed", loopback, "Inner.example:1", "", true},
		{"any name on a public listener", public, "api.example", "", true},

		{"same origin on loopback", loopback, "localhost:8080", "http://localhost:8080", true},
		{"another port", loopback, "localhost:8080", "http://localhost:9090", false},
		{"a foreign page", loopback, "localhost:8080", "https://evil.example", false},
		{"null", loopback, "localhost:8080", "null", false},
		{"nonsense", loopback, "localhost:8080", "://", false},
		{"default ports", loopback, "localhost", "http://localhost:80", true},
		{"default ports of TLS", loopback, "localhost:443", "https://localhost", true},
		{"rebinding: same origin, but a Host that nobody vouched for", public, "evil.example", "http://evil.example", false},
		{"same origin as a listed host", public, "inner.example", "https://inner.example", true},
		{"listed origin", public, "api.example", "https://app.example", true},
		{"listed origin, other scheme", public, "api.example", "http://app.example", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuard([]string{"inner.example"}, []string{"https://app.example"})
			ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: tt.listen})
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil)
			require.NoError(t, err)
			r.Host = tt.host
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			require.Equal(t, tt.pass, g.check(r) == "", g.check(r))
		})
	}
}
