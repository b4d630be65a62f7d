package rejoin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// ClientInfo is what a client says of itself: all of it is its own word.
type ClientInfo struct {
	Name, Title, Version string // of clientInfo; "" where there is none
	// Protocol is the negotiated protocol version, "" until initialize was answered.
	Protocol string
	// UserAgent is that of the HTTP request at hand, "" where there is none.
	UserAgent string
	// Raw is clientInfo as it came; nil: none. Of one over 8 KiB it holds name, title and version. Do not change it.
	Raw json.RawMessage
	// Capabilities are what the client offers, a JSON object; nil: it sent none. Of those over 1 KiB it holds elicitation, roots, sampling and
	// tasks, each as {} if it alone is over a quarter of that. Do not change it. See Session.CanAsk.
	Capabilities json.RawMessage
}

// Client is what the session's client says of itself. Its UserAgent is left out.
func (s *Session) Client() ClientInfo {
	c := ClientInfo{Protocol: s.Version(), Raw: s.clientInfo()}
	text := func(name string) string {
		v, _ := jsonrpc.Field(c.Raw, name)
		t, _ := jsonrpc.Unquote(v)
		return t
	}
	c.Name, c.Title, c.Version = text("name"), text("title"), text("version")
	if s.offers != "" {
		c.Capabilities = json.RawMessage(s.offers)
	}
	return c
}

// clientOf is Client, with what only a request tells.
func (s *Session) clientOf(h http.Header) ClientInfo {
	c := s.Client()
	c.UserAgent = h.Get("User-Agent")
	return c
}

// polls reports whether the client is let go where a policy or a tool asks for it.
func (s *Session) polls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.CanPoll()
}

// canPoll asks the configuration. Where it panics, the answer to initialize is on its way already, and goes on.
func (s *Session) canPoll(c ClientInfo) (yes bool) {
	yes = presumed(&c)
	if s.srv.cfg.CanPoll == nil {
		return yes
	}
	defer s.srv.recovered("Config.CanPoll", func() { yes = false })
	return s.srv.cfg.CanPoll(c, yes)
}

// presumed reports whether a client is expected to come back when it is let go: its version says so, and it is not known better.
func presumed(c *ClientInfo) bool {
	v, _ := core.Find(c.Protocol)
	return v.Polls && !staysAway(c)
}

// strayClient is a kind of client that agrees on a version in which clients come back to the streams of their requests, and does not.
type strayClient struct {
	name   string // of clientInfo; "": any
	agent  string // in its User-Agent; "": any
	before int    // major versions from this one on do come back; 0: none does
}

// strayClients are known to lose each call that they are let go from. Most have a default name that few applications change, and a User-Agent that
// fewer do. Of the others a session learns, at the price of a call: see core's trust.go. docs/limits.md names them for users.
var strayClients = []strayClient{
	// @ai-sdk/mcp (Vercel's AI SDK) 1.0.47 to 2.0.99: its reader of a POST returns at the end of the stream, and its call waits for ever. The
	// version it tells is 1.0.0 in all releases.
	{name: "ai-sdk-mcp-client"},
	{agent: "ai-sdk/"},
	// java-sdk 0.18.0 to 2.0.1, also within Spring AI: any retry line, as a primer has, is an exception that fails the call; and it does not come
	// back for one that was let go.
	{name: "Java SDK MCP Client"},
	{agent: "Java-http-client/"},
	// rmcp, the Rust SDK, 1.5.0 to 2.2.0: a call ends with its first stream. Releases before negotiate older versions, 3.0.0 resumes.
	{name: "rmcp", before: 3},
}

func staysAway(c *ClientInfo) bool {
	for i := range strayClients {
		k := &strayClients[i]
		if (k.name == "" || k.name == c.Name) && strings.Contains(c.UserAgent, k.agent) && (k.before == 0 || !atLeast(c.Version, k.before)) {
			return true
		}
	}
	return false
}

// atLeast reports whether a version has that major number or a higher one.
func atLeast(version string, major int) bool {
	first, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(first)
	return err == nil && n >= major
}

// keptClient is what a session keeps of clientInfo: all of it, or where it is large, with icons in it or for no good reason, what names the
// client.
func keptClient(info []byte) string {
	return kept(info, maxClientBytes, maxIDBytes, "", "name", "title", "version")
}

// keptCapabilities is what a session keeps of its client's capabilities: all of them, or where they are large, those that the server may ask
// for.
func keptCapabilities(all []byte) string {
	return kept(all, maxCapabilityBytes, maxCapabilityBytes/4, "{}", "elicitation", "roots", "sampling", "tasks")
}

// kept is a JSON object of at most so many bytes, or else its members of these names. One of those that has more than member bytes becomes
// large, or is left out if that is "".
func kept(object []byte, most, member int, large string, names ...string) string {
	switch {
	case len(object) == 0 || object[0] != '{':
		return ""
	case string(object) == "{}":
		return "{}"
	case len(object) <= most:
		return string(object)
	}
	out := []byte{'{'}
	for _, name := range names {
		v, ok := jsonrpc.Field(object, name)
		if len(v) > member {
			v = []byte(large)
		}
		if !ok || len(v) == 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, `"`+name+`":`...), v...)
	}
	return string(append(out, '}'))
}

const (
	maxClientBytes     = 8 << 10 // of clientInfo that a session keeps
	maxCapabilityBytes = 1 << 10 // of capabilities
	maxDoubted         = 100     // names and versions of clients that are logged
)

// logDoubt names a client that was let go and has not come back: once for each name and version, of so many.
func (s *Server) logDoubt(n *Session) {
	s.stats.doubted.Add(1)
	c := n.Client()
	key := [2]string{clip(c.Name), clip(c.Version)}
	s.doubtedMu.Lock()
	_, said := s.doubted[key]
	if said = said || len(s.doubted) >= maxDoubted; !said {
		s.doubted[key] = struct{}{}
	}
	s.doubtedMu.Unlock()
	if said {
		return
	}
	s.log.Warn("rejoin: a client was let go and has not come back, so its session does not let it go again: if this kind never comes back, "+
		"say so with Config.CanPoll, which saves the first call of each session too (said once for each client and version)",
		"client", key[0], "version", key[1], "protocol", c.Protocol, "session", n.ref)
}

// clip shortens what a client chose for a log.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
