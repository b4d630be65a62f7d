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
	origins map[string]bool
}

func newGuard(hosts, origins []string) guard {
	g := guard{hosts: map[string]bool{}, origins: map[string]bool{}}
	for _, h := range hosts {
		g.hosts[canonicalHost(h)] = true
	}
	for _, o := range origins {
		g.origins[strings.ToLower(o)] = true
	}
	return g
}

// check returns why a request is refused, or "".
func (g *guard) check(r *http.Request) string {
	host := canonicalHost(r.Host)
	checked := g.allows(host)
	if !checked && onLoopback(r) {
		return fmt.Sprintf("Host %q is not allowed on a loopback listener (Config.AllowedHosts)", r.Host)
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return ""
	}
	for _, o := range origins {
		if g.origins[strings.ToLower(o)] {
			continue
		}
		u, err := url.Parse(o)
		// Same origin alone is no defence: under rebinding the page's own origin is the Host that it sends.
		if err == nil && u.Host != "" && checked && sameHostPort(u, r.Host) {
			continue
		}
		return fmt.Sprintf("Origin %q is not allowed (Config.AllowedOrigins)", o)
	}
	return ""
}

// allows reports whether a host is one that this server is meant to be reached by.
func (g *guard) allows(host string) bool {
	if host == "localhost" || g.hosts[host] {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// canonicalHost takes off the port, brackets, a final dot and upper case.
func canonicalHost(h string) string {
	if name, _, err := net.SplitHostPort(h); err == nil {
		h = name
	}
	h = strings.TrimSuffix(strings.TrimPrefix(h, "["), "]")
	return strings.TrimSuffix(strings.ToLower(h), ".")
}

func sameHostPort(origin *url.URL, host string) bool {
	def := "80"
	if origin.Scheme == "https" {
		def = "443"
	}
	port := func(hostport string) string {
		if _, p, err := net.SplitHostPort(hostport); err == nil && p != "" {
			return p
		}
		return def
	}
	return canonicalHost(origin.Host) == canonicalHost(host) && port(origin.Host) == port(host)
}

func onLoopback(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
