package door

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Hosts that are checked on loopback addresses, and Origins that are checked everywhere. inner.example and others are allowed.
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
		{"IPv6 with a zone", loopback, "[::1%lo0]:80", "", true},
		{"IPv6, written out", loopback, "[0:0:0:0:0:0:0:1]:80", "", true},
		{"IPv4-mapped", loopback, "[::ffff:127.0.0.1]:80", "", true},
		{"IPv4-mapped, in hexadecimal", loopback, "[::FFFF:7F00:1]", "", true},
		{"an empty port", loopback, "localhost:", "", true},
		{"a final dot and capitals", loopback, "LocalHost.:1", "", true},
		{"a rebound name", loopback, "evil.example:8080", "", false},
		{"a name that looks like one", loopback, "localhost.evil.example", "", false},
		{"a public address", loopback, "192.0.2.1", "", false},
		{"a public IPv6 address", loopback, "[2001:db8::1]:80", "", false},
		{"a public IPv4-mapped address", loopback, "[::ffff:192.0.2.1]:80", "", false},
		{"the address of no interface, which reaches this machine", loopback, "0.0.0.0:8080", "", false},
		{"its IPv6 form", loopback, "[::]:8080", "", false},
		{"an address that only some take for one", loopback, "127.1", "", false},
		{"a number", loopback, "2130706433", "", false},
		{"an address in a name", loopback, "127.0.0.1.evil.example", "", false},
		{"a name below localhost", loopback, "evil.localhost", "", false},
		{"two final dots", loopback, "localhost..", "", false},
		{"an empty one", loopback, "", "", false},
		{"nothing but a port", loopback, ":8080", "", false},
		{"nothing but a dot", loopback, ".", "", false},
		{"listed", loopback, "Inner.example:1", "", true},
		{"listed, with a final dot", loopback, "inner.example.:1", "", true},
		{"listed with another port", loopback, "ported.example:2", "", true},
		{"listed, an address", loopback, "[2001:db8::99]:1", "", true},
		{"below a listed one", loopback, "x.inner.example", "", false},
		{"around a listed one", loopback, "inner.example.evil.example", "", false},
		{"an IPv6 listener", net.IPv6loopback, "evil.example", "", false},
		{"an IPv6 listener of its own", net.IPv6loopback, "[::1]", "", true},
		{"an IPv4-mapped listener", net.ParseIP("::ffff:127.0.0.1"), "evil.example", "", false},
		{"another loopback address of the listener", net.IPv4(127, 8, 8, 8), "evil.example", "", false},
		{"any name on a public listener", public, "api.example", "", true},

		{"same origin on loopback", loopback, "localhost:8080", "http://localhost:8080", true},
		{"another port", loopback, "localhost:8080", "http://localhost:9090", false},
		{"a foreign page", loopback, "localhost:8080", "https://evil.example", false},
		{"null", loopback, "localhost:8080", "null", false},
		{"nonsense", loopback, "localhost:8080", "://", false},
		{"no scheme", loopback, "localhost:8080", "localhost:8080", false},
		{"no scheme, two slashes", loopback, "localhost:8080", "//localhost:8080", false},
		{"a path", loopback, "localhost:8080", "http://localhost:8080/", false},
		{"a longer path", loopback, "localhost:8080", "http://localhost:8080/mcp", false},
		{"a query", loopback, "localhost:8080", "http://localhost:8080?", false},
		{"a fragment", loopback, "localhost:8080", "http://localhost:8080#", false},
		{"a user", loopback, "localhost:8080", "http://localhost:8080@evil.example", false},
		{"a user of the same host", loopback, "localhost:8080", "http://evil.example@localhost:8080", false},
		{"two in one", loopback, "localhost:8080", "http://localhost:8080 http://evil.example", false},
		{"two in one, the other way", loopback, "localhost:8080", "http://localhost:8080, http://evil.example", false},
		{"a port that is none", loopback, "localhost:8080", "http://localhost:port", false},
		{"a name that begins like it", loopback, "localhost:8080", "http://localhost:8080.evil.example", false},
		{"capitals", loopback, "localhost:8080", "HTTP://LocalHost:8080", true},
		{"a final dot in both", loopback, "localhost.:8080", "http://localhost.:8080", true},
		{"IPv6 in both", loopback, "[::1]:8080", "http://[::1]:8080", true},
		{"IPv6, default port", loopback, "[::1]", "http://[::1]", true},
		{"IPv6, another port", loopback, "[::1]:8080", "http://[::1]", false},
		{"another name for this machine", loopback, "127.0.0.1:8080", "http://localhost:8080", false},
		{"another scheme's default port", loopback, "localhost:80", "https://localhost", false},
		{"the pages of an app on this machine", loopback, "localhost", "tauri://localhost", false},
		{"a listed Host, its own page", loopback, "ported.example:2", "http://ported.example:2", true},
		{"a listed Host, another one's page", loopback, "ported.example:2", "http://inner.example:2", false},
		{"default ports", loopback, "localhost", "http://localhost:80", true},
		{"default ports of TLS", loopback, "localhost:443", "https://localhost", true},
		{"rebinding on loopback", loopback, "evil.example:8080", "http://evil.example:8080", false},
		{"rebinding on loopback, an Origin that is no lie", loopback, "evil.example:8080", "https://app.example", false},
		{"rebinding: same origin, but a Host that nobody vouched for", public, "evil.example", "http://evil.example", false},
		{"same origin as a listed host", public, "inner.example", "https://inner.example", true},
		{"listed origin", public, "api.example", "https://app.example", true},
		{"listed origin on loopback", loopback, "localhost:8080", "https://app.example", true},
		{"listed origin, capitals", public, "api.example", "HTTPS://App.Example", true},
		{"listed origin, its default port", public, "api.example", "https://app.example:443", true},
		{"listed with its default port", public, "api.example", "http://old.example", true},
		{"listed with a port", public, "api.example", "https://ported.example:8443", true},
		{"listed with a port, without it", public, "api.example", "https://ported.example", false},
		{"listed origin, other port", public, "api.example", "https://app.example:444", false},
		{"listed origin, other scheme", public, "api.example", "http://app.example", false},
		{"listed origin with a path", public, "api.example", "https://app.example/x", false},
		{"below a listed origin", public, "api.example", "https://x.app.example", false},
		{"around a listed origin", public, "api.example", "https://app.example.evil.example", false},
		{"a listed app", public, "api.example", "app://desktop", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewGuard([]string{"inner.example", "Ported.example:1", "2001:db8::99"}, []string{
				"https://app.example", "http://old.example:80", "https://ported.example:8443", "app://desktop",
			})
			r := arriving(t, &net.TCPAddr{IP: tt.listen})
			r.Host = tt.host
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			require.Equal(t, tt.pass, g.Check(r) == "", g.Check(r))
		})
	}
}

// Each of several Origin fields has to pass, and an empty one is not none.
func TestGuardLooksAtEachOrigin(t *testing.T) {
	const own, foreign = "http://localhost:8080", "http://evil.example"
	for _, tt := range []struct {
		origins []string
		pass    bool
	}{
		{nil, true},
		{[]string{own}, true},
		{[]string{own, own}, true},
		{[]string{own, "https://app.example"}, true},
		{[]string{own, foreign}, false},
		{[]string{foreign, own}, false},
		{[]string{"", own}, false},
		{[]string{own, "null"}, false},
		{[]string{""}, false},
		{[]string{" "}, false},
	} {
		g := NewGuard(nil, []string{"https://app.example"})
		r := arriving(t, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		r.Host, r.Header["Origin"] = "localhost:8080", tt.origins
		require.Equal(t, tt.pass, g.Check(r) == "", "%q", tt.origins)
	}
}

// named is an address that is no TCP address.
type named string

func (named) Network() string  { return "test" }
func (n named) String() string { return string(n) }

// Where a request came to is known from any kind of address; where it is not known, the Host is not checked.
func TestGuardOnListenersOfOtherKinds(t *testing.T) {
	for _, tt := range []struct {
		addr net.Addr
		pass bool
	}{
		{&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443}, false},
		{&net.UDPAddr{IP: net.IPv6loopback, Port: 443}, false},
		{&net.UDPAddr{IP: net.IPv6loopback, Port: 443, Zone: "lo"}, false},
		{&net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, true},
		{&net.TCPAddr{IP: net.IPv6loopback, Zone: "lo"}, false},
		{named("127.0.0.1:80"), false},
		{named("[::ffff:127.0.0.1]:80"), false},
		{named("localhost:80"), false},
		{named("bufconn"), true},
		{&net.UnixAddr{Name: "/run/mcp.sock", Net: "unix"}, true},
		{nil, true},
	} {
		g := NewGuard(nil, nil)
		r := arriving(t, tt.addr)
		r.Host = "evil.example"
		require.Equal(t, tt.pass, g.Check(r) == "", "%v", tt.addr)
	}
}

// arriving is a request that came to an address.
func arriving(t *testing.T, at net.Addr) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, at), http.MethodPost, "/mcp", nil)
	require.NoError(t, err)
	return r
}
