package rejoin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// ClientInfo is what a client says about itself. None of it is verified.
type ClientInfo struct {
	Name, Title, Version string // from clientInfo of initialize, or of a modern request; "": the client sent none
	// Protocol is the negotiated protocol version, or that of a modern request; "" until initialize was answered. For a probe see Config.CanPoll.
	Protocol string
	// UserAgent is the User-Agent of the HTTP request in question; "": it has none, or no request is in question.
	UserAgent string
	// Raw is clientInfo as it came; nil: the client sent none. If clientInfo is over 8 KiB, Raw has only its name, title and version. Do not
	// change it.
	Raw json.RawMessage
	// Capabilities is the JSON object of what the client offers; nil: the client sent none. If the object is over 1 KiB, Capabilities has only
	// elicitation, roots, sampling and tasks, and each of these is {} if it is over 256 bytes. Do not change it. See Session.CanAsk.
	Capabilities json.RawMessage
}

// Client returns what the session's client says about itself, without a UserAgent.
func (s *Session) Client() ClientInfo {
	description := s.description.Value()
	c := newClientInfo(description.client, description.capabilities)
	c.Protocol = s.Version()
	return c
}

// modernClient is what the client of a modern request says about itself, in the request.
func modernClient(h http.Header, m *jsonrpc.Message) ClientInfo {
	meta, _ := jsonrpc.Field(m.Params, "_meta")
	version, _ := jsonrpc.Field(meta, metaPrefix+"protocolVersion")
	info, _ := jsonrpc.Field(meta, metaPrefix+"clientInfo")
	c := newClientInfo(trimClientInfo(info), trimCapabilities(modernCapabilitiesOf(m.Params)))
	c.UserAgent = h.Get("User-Agent")
	c.Protocol, _ = jsonrpc.Unquote(version)
	return c
}

// newClientInfo reads a clientInfo and capabilities, each trimmed; "": the client sent none.
func newClientInfo(info, capabilities string) (c ClientInfo) {
	if info != "" {
		c.Raw = json.RawMessage(info)
	}
	c.Name, c.Title, c.Version = stringField(c.Raw, "name"), stringField(c.Raw, "title"), stringField(c.Raw, "version")
	if capabilities != "" {
		c.Capabilities = json.RawMessage(capabilities)
	}
	return c
}

// stringField returns a string member of a JSON object; "": it has none.
func stringField(object []byte, name string) string {
	v, _ := jsonrpc.Field(object, name)
	t, _ := jsonrpc.Unquote(v)
	return t
}

// polls decides whether the client of a session polls. version was negotiated, and h is the header of its initialize.
func (s *Session) polls(version string, h http.Header) bool {
	var c ClientInfo
	if s.srv.cfg.CanPoll != nil {
		c = s.Client()
	} else { // only what presumedToPoll needs: this is done for every session
		info := []byte(s.description.Value().client)
		c.Name, c.Version = stringField(info, "name"), stringField(info, "version")
	}
	c.UserAgent, c.Protocol = h.Get("User-Agent"), version
	return s.srv.canPoll(c)
}

// clientOf is Client with the UserAgent of a request.
func (s *Session) clientOf(h http.Header) ClientInfo {
	c := s.Client()
	c.UserAgent = h.Get("User-Agent")
	return c
}

// canPoll decides whether a client polls. If Config.CanPoll panics, it does not, and the request goes on.
func (srv *Server) canPoll(c ClientInfo) (yes bool) {
	yes = presumedToPoll(&c)
	if srv.cfg.CanPoll == nil {
		return yes
	}
	defer srv.recovered("Config.CanPoll", func() { yes = false })
	return srv.cfg.CanPoll(c, yes)
}

// presumedToPoll reports whether a client is expected to come back after a disconnect: its version says so, and it is not in nonPollingClients.
func presumedToPoll(c *ClientInfo) bool {
	v, _ := core.Find(c.Protocol)
	return v.Polls && !isNonPolling(c)
}

// nonPollingClient describes clients that negotiate a version in which clients poll, but do not poll.
type nonPollingClient struct {
	name      string // of clientInfo; "": any
	userAgent string // part of its User-Agent; "": any
	fixedIn   int    // the first major version that polls; 0: no version does
}

// nonPollingClients lists the clients that are known to lose every call in which they are disconnected. So the legacy era helps them nothing, and
// EraDefault answers their probes. Most have a default name that few
// applications change, and a User-Agent that even fewer change. For other clients a session finds out by losing one call: see trust.go in
// package core. docs/limits.md has this list for users.
var nonPollingClients = []nonPollingClient{
	// @ai-sdk/mcp (Vercel's AI SDK) 1.0.47 to 2.0.99: its reader of a POST returns at the end of the stream, and its call waits for ever. All
	// releases report version 1.0.0.
	{name: "ai-sdk-mcp-client"},
	{userAgent: "ai-sdk/"},
	// java-sdk 0.18.0 to 2.0.1, also inside Spring AI: a retry line, such as that of a primer, throws an exception that fails the call. It does
	// not poll after a disconnect either.
	{name: "Java SDK MCP Client"},
	{userAgent: "Java-http-client/"},
	// rmcp, the Rust SDK, 1.5.0 to 2.2.0: a call ends when its first connection ends. Earlier releases negotiate older versions; 3.0.0 resumes.
	{name: "rmcp", fixedIn: 3},
}

func isNonPolling(c *ClientInfo) bool {
	for i := range nonPollingClients {
		k := &nonPollingClients[i]
		if (k.name == "" || k.name == c.Name) && strings.Contains(c.UserAgent, k.userAgent) && (k.fixedIn == 0 || !atLeast(c.Version, k.fixedIn)) {
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

// trimClientInfo returns what a session keeps of clientInfo. A large clientInfo, such as one with icons, is reduced to what names the client.
func trimClientInfo(info []byte) string {
	return trimObject(info, maxClientBytes, maxIDBytes, "", "name", "title", "version")
}

// trimCapabilities returns what a session keeps of its client's capabilities. A large object is reduced to what Session.CanAsk needs.
func trimCapabilities(all []byte) string {
	return trimObject(all, maxCapabilityBytes, maxCapabilityBytes/4, "{}", "elicitation", "roots", "sampling", "tasks")
}

// trimObject copies a JSON object of at most limit bytes. A larger one is reduced to the members with these names. A member that is over
// memberLimit bytes is replaced by placeholder, or left out if that is "". What is not an object becomes "".
func trimObject(object []byte, limit, memberLimit int, placeholder string, names ...string) string {
	switch {
	case len(object) == 0 || object[0] != '{':
		return ""
	case string(object) == "{}":
		return "{}"
	case len(object) <= limit:
		return string(object)
	}
	out := []byte{'{'}
	for _, name := range names {
		v, ok := jsonrpc.Field(object, name)
		if len(v) > memberLimit {
			v = []byte(placeholder)
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
	maxClientBytes     = 8 << 10 // a clientInfo over this limit is reduced
	maxCapabilityBytes = 1 << 10 // capabilities over this limit are reduced
)
