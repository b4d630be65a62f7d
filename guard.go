package rejoin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard is the defence against DNS rebinding and foreign web pages: a page that a browser shows can send requests to a server on
// this machine, under a name that its author controls. It looks at the Host where the listener is a loopback address, and at
// the Origin everywhere (transports, "security warning", 2025-11-25).
type guard struct {
	hosts   map[string]bool // allowed beside loopback names
	origins map[origin]bool
}

func newGuard(hosts, origins []string) guard {
	g := guard{hosts: map[string]bool{}, origins: map[origin]bool{}}
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

// check returns why a request is refused, or "".
func (g *guard) check(r *http.Request) string {
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

// maxHeaderBytes bounds the header of a POST, whose calls keep it as long as they run.
const maxHeaderBytes = 64 << 10

// headerBytes is the size of a header as RFC 9113 counts it (section 6.5.2), which is nearer to what it takes of the memory than what was sent.
func headerBytes(h http.Header) (n int) {
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v) + 32
		}
	}
	return n
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
	if name, _, err := net.SplitHostPort(h); err == nil {
		h = name
	}
	h = strings.TrimSuffix(strings.TrimPrefix(h, "["), "]")
	return strings.TrimSuffix(strings.ToLower(h), ".")
}

// validHost reports whether a host can be that of a request: a name or an address, perhaps with a port. There are no wildcards.
func validHost(h string) bool {
	if _, err := netip.ParseAddr(h); err == nil {
		return true
	}
	u, err := url.Parse("//" + h)
	return err == nil && u.Host == h && canonicalHost(h) != "" && !strings.Contains(h, "*")
}

// origin is where a page came from. Its port is never left out where its scheme has one by default.
type origin struct{ scheme, host, port string }

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
