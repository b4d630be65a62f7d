package door

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Guard is the defence against DNS rebinding and foreign web pages: a page in a browser can send requests to a server on this machine, under a
// name that the page's author controls. It checks the Host if the request came to a loopback address, and the Origin always (transports,
// "security warning", 2025-11-25). http.CrossOriginProtection is not enough: it does not check the Host.
type Guard struct {
	hosts   map[string]bool // allowed beside loopback names
	origins map[origin]bool
}

// NewGuard makes a guard that also allows these hosts and these origins. They are checked before, by ValidHost and ValidOrigin.
func NewGuard(hosts, origins []string) Guard {
	g := Guard{hosts: map[string]bool{}, origins: map[origin]bool{}}
	for _, h := range hosts {
		g.hosts[canonicalHost(h)] = true
	}
	for _, text := range origins {
		if o, ok := parseOrigin(text); ok {
			g.origins[o] = true
		}
	}
	return g
}

// Check returns why a request is refused, or "".
func (g *Guard) Check(r *http.Request) string {
	host := canonicalHost(r.Host)
	checked := isLoopback(host) || g.hosts[host]
	if !checked && onLoopback(r) {
		return fmt.Sprintf("Host %q is not allowed on a loopback listener (Config.AllowedHosts)", r.Host)
	}
	for _, text := range r.Header["Origin"] {
		o, ok := parseOrigin(text)
		// Same origin alone is no defence: under rebinding the page's own origin is the Host that it sends.
		if !ok || !g.origins[o] && !(checked && o.serves(r.Host)) {
			return fmt.Sprintf("Origin %q is not allowed (Config.AllowedOrigins)", text)
		}
	}
	return ""
}

// isLoopback reports whether a host, in its canonical form, can only be this machine.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	if host == "" || strings.IndexByte("01:", host[0]) < 0 { // most are names, and to learn it from an error is dear
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// onLoopback reports whether a request came to a loopback address, whatever the listener was told to listen on.
func onLoopback(r *http.Request) bool {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case net.Addr: // of QUIC, or of somebody's own listener
		return isLoopback(canonicalHost(addr.String()))
	}
	return false
}

// canonicalHost takes off the port, brackets, a final dot and upper case.
func canonicalHost(h string) string {
	if strings.IndexByte(h, ':') >= 0 { // without a port there would be an error, which is an allocation
		if name, _, err := net.SplitHostPort(h); err == nil {
			h = name
		}
	}
	h = strings.TrimSuffix(strings.TrimPrefix(h, "["), "]")
	return strings.TrimSuffix(strings.ToLower(h), ".")
}

// ValidHost reports whether a host can be that of a request: a name or an address, perhaps with a port. There are no wildcards.
func ValidHost(h string) bool {
	if _, err := netip.ParseAddr(h); err == nil {
		return true
	}
	u, err := url.Parse("//" + h)
	return err == nil && u.Host == h && canonicalHost(h) != "" && !strings.Contains(h, "*")
}

// origin is where a page came from. Its port is never left out where its scheme has one by default.
type origin struct{ scheme, host, port string }

// ValidOrigin reports whether a text is an origin as browsers write it, such as https://app.example.
func ValidOrigin(text string) bool {
	_, ok := parseOrigin(text)
	return ok
}

// parseOrigin reads what browsers write: a scheme, a host and perhaps a port, and nothing else. "null" is none.
func parseOrigin(text string) (origin, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Path != "" || strings.ContainsAny(text, "?#@*") || canonicalHost(u.Host) == "" {
		return origin{}, false
	}
	o := origin{scheme: u.Scheme, host: canonicalHost(u.Host), port: u.Port()}
	if o.port == "" {
		o.port = defaultPort(o.scheme)
	}
	return o, true
}

// serves reports whether a page of this origin came from the host that a request names. Whether it came over TLS is not known
// here: a proxy may have taken that off.
func (o origin) serves(host string) bool {
	def := defaultPort(o.scheme)
	if def == "" { // the pages of an extension or an app
		return false
	}
	port := def
	if _, p, err := net.SplitHostPort(host); err == nil && p != "" {
		port = p
	}
	return o.host == canonicalHost(host) && o.port == port
}

func defaultPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}
