package rejoin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/door"
)

// Config configures a Server. In number and duration fields zero means the default, and negative means off. NewServer checks it once and
// copies it.
type Config struct {
	// Policy is the default policy of every request.
	Policy Policy
	// PolicyFor changes the policy of one request. p is the default policy, with all defaults filled in. PolicyFor runs before the request
	// does, so it must be quick.
	PolicyFor func(r RequestInfo, p Policy) Policy
	// Principal returns the name of the user who sent a request. A session answers only requests of the user who opened it. The values that
	// middleware of the router has set are in r.Context(). By default all requests have the same user.
	Principal func(r *http.Request) string
	// CanPoll decides whether a client comes back to the stream of a request after it was disconnected (SEP-1699). It is called once for each
	// session, when initialize is answered. presumed is the decision without CanPoll: true for version 2025-11-25, unless the client is
	// known not to come back (docs/limits.md lists such clients); false for older versions. With EraDefault it is also called for each probe of
	// a client that declares no tasks, before there is a session: true directs the client to the legacy generation, false lets it choose.
	// client.Protocol is then 2025-11-25, the version to which the client would fall back. For example,
	//
	//	return presumed && client.Name != "never-comes-back" || client.Name == "old-but-polls"
	//
	// A client that cannot poll gets no primer and no retry, because some old clients fail at these. It is not disconnected: CloseAfter has no
	// effect on it, and CloseStream returns ErrNotResumable. If a client is disconnected and does not come back, it is not disconnected again in
	// its session, whatever CanPoll says. Defaults to presumed.
	CanPoll func(client ClientInfo, presumed bool) bool

	// AllowedHosts are additional Host names and addresses for requests that arrive at a loopback address, such as the public name behind a
	// proxy on the same machine. Loopback names are always allowed there. Ports are ignored, and there are no wildcards. Defaults to none.
	AllowedHosts []string
	// AllowedOrigins are the origins of web pages that may call the server, such as https://app.example. A page from the same host is
	// also allowed, if that host is a loopback name or in AllowedHosts. There are no wildcards. Defaults to none.
	AllowedOrigins []string

	// KeepAlive is how long a stream may be silent before the server writes a comment to it. A modern call of NewApp that has been silent for so
	// long becomes a stream. Defaults to 15 s.
	KeepAlive time.Duration
	// SessionIdleTTL is how long a session may be idle before it ends: no request runs, no connection is open, and the client sends nothing.
	// A client that was told when to come back is not idle before that time. Defaults to 30 min.
	SessionIdleTTL time.Duration
	// WriteTimeout limits each write to a client. Defaults to 30 s.
	WriteTimeout time.Duration
	// StoreTimeout limits each operation of the event store. Defaults to 5 s.
	StoreTimeout time.Duration

	// MaxBodyBytes limits the body of a POST. Whatever it is, an initialize has at most 64 KiB, and a batch at most 1,000 messages. Defaults
	// to 4 MiB.
	MaxBodyBytes int64
	// MaxSessions limits the sessions. When the limit is reached, a new session replaces an idle one: no request runs in it, no connection is
	// open, no result waits to be fetched, and the app waits for no answer of the client. First choice is the oldest session whose client
	// has sent nothing since initialize, if it is at least 30 s old. Second choice is the session that has been idle for longest, if that is
	// at least 5 min. If there is neither, the new session is refused (503).
	//
	// The second choice is allowed only while at most half of the sessions have a client that has sent nothing since initialize. If Principal
	// is set, each principal may hold as many sessions as there are places left, so a single principal may hold half of all. A session
	// beyond that replaces an idle one of the same principal, or is refused.
	//
	// MaxSessions is also the limit, for the whole server, of handlers that still run although their requests have ended. At that limit no
	// session is opened and no modern request begins (503). Defaults to 10,000.
	MaxSessions int
	// MaxConcurrent limits the requests in flight in a session. Up to 16 pings do not count. Four times as many handlers may run, including
	// those whose requests have ended, for example by a cancellation. A request over either limit is refused (429). Defaults to 64.
	MaxConcurrent int
	// NoStandalone answers a GET without Last-Event-ID with 405. Defaults to false: each session has a standalone stream.
	NoStandalone bool

	// Eras says which protocol generations the server speaks, and to which one it directs a client that speaks both. For the modern one the app
	// must be a ModernApp. There no client can poll, but Tasks take the place of polling. Modern requests have no session, so only Policy,
	// PolicyFor, Principal, AllowedHosts, AllowedOrigins, MaxBodyBytes, MaxSessions (for handlers), KeepAlive, WriteTimeout, Store, StoreTimeout
	// and Tasks apply to them, and with EraDefault CanPoll to probes. Defaults to EraDefault. docs/eras.md has a table of what each client gets.
	Eras Eras
	// Tasks are the long calls of the modern era (extension io.modelcontextprotocol/tasks).
	Tasks Tasks
	// Store keeps the events. Defaults to eventstore.NewMemory(eventstore.MemoryConfig{}).
	Store eventstore.Store
	// Cluster makes several processes serve one set of sessions. Defaults to nil: sessions live and end with this process.
	Cluster *Cluster
	// Node is the name of this process in the ids that it makes: at most 32 letters, digits, '-' and '_'. In a cluster some letters are added to it
	// at each start, because a process that starts again may adopt sessions of the one before it. Defaults to a random name.
	Node string
	// Logger receives what an operator should know. Defaults to slog.Default().
	Logger *slog.Logger
}

// Policy says how the stream of a request behaves. Zero means the default, negative means off. Of a modern request only TaskAfter, AbandonAfter
// and MaxRuntime are used.
type Policy struct {
	// Mode is the form of the answer. Defaults to ModeAuto.
	Mode Mode
	// StreamAfter is how long the server waits for the response before it sends the head of a stream. Defaults to 100 ms, with ModeSSE to
	// 1 ms.
	StreamAfter time.Duration
	// CloseAfter is how long a response may stay open before its client is disconnected. It applies whatever the tool does and however slowly
	// the client reads. The server completes what it is writing, at most 64 KiB or one larger message, and the client fetches the rest
	// when it comes back. Set it below the limit of your proxy: then calls of every tool may last longer than that limit, and the tools
	// need no change. It has no effect on clients that do not poll (Config.CanPoll). Defaults to off.
	CloseAfter time.Duration
	// TaskAfter is how long a tools/call of the modern era may run before its client gets a task in place of the result (Config.Tasks), if the
	// client has declared the extension in that request. Negative: only when the tool calls Handle.CloseStream or Handle.Ask. The default is the
	// smaller of 30 s and the CloseAfter of Config.Policy, if that is on: many clients wait for 60 s.
	TaskAfter time.Duration
	// Retry is how long a client is told to wait before it comes back, from 1 ms to 1 h. The wait grows by half with each poll that comes,
	// goes and brings nothing, up to RetryMax. It starts again at Retry after a poll that lasted for CloseAfter. Each client gets up to a
	// fifth more, at random. Retry defaults to 1 s and cannot be off. RetryMax defaults to 30 s, or to Retry if that is longer.
	Retry, RetryMax time.Duration
	// AbandonAfter is how late a client may come back before its request is cancelled. It counts from when the client was told to be back, in a
	// task from when the client last asked or listened. Defaults to 10 min.
	AbandonAfter time.Duration
	// MaxRuntime is how long a call may run before it is cancelled. Use it in place of a middleware's time limit: a call does not end with
	// its request. Defaults to off.
	MaxRuntime time.Duration
	// Retain is how long a stream is kept once its response was recorded and its client was due back. Defaults to 5 min. Off: until its
	// session ends or its room is needed.
	Retain time.Duration
}

// Tasks says how the server makes tasks. A task is a tools/call of the modern era whose client got a task id in place of the result, and asks
// with tasks/get how far the call is. The tool does not notice. A client gets a task only if it has declared the extension
// io.modelcontextprotocol/tasks in that request.
type Tasks struct {
	// Off makes no tasks. Then clients are not told of the extension, and the app itself gets the methods tasks/….
	Off bool
	// TTL is how long a task is kept after its end. While the call runs, ttlMs grows, so that the result is always kept for this time.
	// Defaults to 10 min. It cannot be off.
	TTL time.Duration
	// PollInterval is how long a client is told to wait between two tasks/get, from 1 ms to 1 h. Defaults to 2 s. It cannot be off.
	PollInterval time.Duration
	// Max limits the tasks, with those that have ended and are kept. At the limit a call goes on as one that cannot become a task. Defaults to
	// 10,000.
	Max int
	// MaxPerPrincipal limits the tasks of one principal in the same way. Defaults to a tenth of Max if that is on and Principal is set, else
	// to off. In a cluster tasks of processes that are lost or have drained may exceed Max by half, and MaxPerPrincipal by any number.
	MaxPerPrincipal int
	// Required names the tools that clients without the extension may not call: these get the error -32021 (400). It must be quick. Nil: none.
	Required func(tool string) bool
}

// Mode is the form of the answer to a POST.
type Mode uint8

const (
	// ModeAuto answers with plain JSON if the response is the first thing to send and comes within StreamAfter, else with a stream.
	ModeAuto Mode = iota
	// ModeSSE always answers with a stream.
	ModeSSE
	// ModeJSON always answers with plain JSON. Messages that a tool sends before its response go to the standalone stream, except progress,
	// which is dropped. A question to the client fails with ErrNoStream unless the client reads the standalone stream.
	ModeJSON
)

// Eras says which protocol generations a server speaks. The legacy era, up to version 2025-11-25, has sessions, and that version has
// polling. The modern era, from version 2026-07-28 on, has neither; it has tasks, for clients that declare them.
type Eras uint8

const (
	// EraDefault serves both generations on one URL, and each client in the one in which its long calls survive a lost connection. It is
	// EraBoth with one exception. With server/discover, the probe, a client of both generations finds out whether a server is modern. A probe
	// gets the answer of EraLegacy if its client declares no tasks and would poll in the legacy generation. It declares tasks if
	// clientCapabilities.extensions in _meta has an object for "io.modelcontextprotocol/tasks". It would poll unless CanPoll, or the list of
	// clients that never poll, says otherwise. So
	//
	//   - a client of both generations that declares tasks gets the modern one;
	//   - a client of both generations that declares none gets the legacy one, and polls;
	//   - a client of both generations that never polls gets the modern one: the legacy one would not help it;
	//   - a client that sends no probe gets the generation that it speaks;
	//   - a client that speaks only the modern one, sends a probe and declares no tasks, fails to connect: it needs EraBoth.
	//
	// If the app serves no modern requests, or tasks are off, EraDefault is EraLegacy.
	EraDefault Eras = iota
	// EraLegacy serves versions up to 2025-11-25. It refuses modern requests, and clients of both generations fall back at once.
	EraLegacy
	// EraModern serves only version 2026-07-28 and later.
	EraModern
	// EraBoth serves both generations on one URL, whatever a client declares. Clients that speak both choose the modern one, in which a call
	// without a task ends with its connection.
	EraBoth
)

// RequestInfo is what PolicyFor gets to know about a request.
type RequestInfo struct {
	Method string // "tools/call"
	Name   string // params.name of tools/call and prompts/get, params.uri of resources/read; else ""
	Client ClientInfo
	// Polls reports whether the client can be disconnected. If not, CloseAfter has no effect on the request. It is false for initialize, and for
	// modern requests.
	Polls bool
	// Tasks reports whether the request can become a task. If not, TaskAfter has no effect on it.
	Tasks bool
	HTTP  *http.Request
}

const (
	maxJSONDepth = 256
	maxIDBytes   = 1 << 10 // a request's id, which is kept longer than the request, and a progress token
	// maxEscapedIDBytes limits the id of an earlier request in a later message, where each byte may be escaped.
	maxEscapedIDBytes  = 6 * maxIDBytes
	maxBatch           = 1000      // messages
	maxInitializeBytes = 64 << 10  // its body; sessions and SDKs keep parts of it
	maxKeptIDBytes     = 128 << 10 // ids of ended requests that a session keeps, and as many of dropped ones
	defaultTaskAfter   = 30 * time.Second
	maxEnded           = 256  // ended streams that a session keeps; each costs memory and work of the garbage collector
	maxRemembered      = 1000 // dropped streams whose numbers a session remembers
)

// resolve fills in the defaults. It returns all mistakes as one error.
func (c *Config) resolve(app App, modern http.Handler) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Eras == EraDefault && (modern == nil || c.Tasks.Off) {
		c.Eras = EraLegacy
	}
	if app == nil {
		fault("NewServer needs an App")
	} else if c.Eras != EraLegacy && modern == nil {
		fault("Eras: the app does not serve modern requests (it is not a ModernApp, or its Modern returns nil)")
	}
	if own, ok := app.(*handlerApp); ok {
		faults = append(faults, own.faults...)
	}
	if c.Eras > EraBoth {
		fault("Eras: unknown value %d", c.Eras)
	}
	duration := func(name string, d *time.Duration, def time.Duration) {
		switch {
		case *d == 0:
			*d = def
		case *d < 0:
			*d = 0
		case *d < time.Millisecond:
			fault("%s: %v is less than 1 ms", name, *d)
		}
	}
	duration("KeepAlive", &c.KeepAlive, 15*time.Second)
	duration("SessionIdleTTL", &c.SessionIdleTTL, 30*time.Minute)
	duration("WriteTimeout", &c.WriteTimeout, 30*time.Second)
	duration("StoreTimeout", &c.StoreTimeout, 5*time.Second)
	faults = append(faults, c.Policy.check()...)
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = 4 << 20
	}
	count := func(n *int, def int) {
		if *n == 0 {
			*n = def
		}
	}
	count(&c.MaxSessions, 10_000)
	count(&c.MaxConcurrent, 64)
	faults = append(faults, c.Tasks.resolve(c.Principal != nil)...)
	for _, h := range c.AllowedHosts {
		if !door.ValidHost(h) {
			fault("AllowedHosts: %q is not a host such as api.example.com", h)
		}
	}
	for _, o := range c.AllowedOrigins {
		if !door.ValidOrigin(o) {
			fault("AllowedOrigins: %q is not an origin such as https://example.com", o)
		}
	}
	switch {
	case c.Node == "":
		c.Node = randomName()
	case !validName(c.Node, 32, ""):
		fault("Node: %q: letters, digits, '-' and '_', at most 32", c.Node)
	case c.Cluster != nil:
		c.Node += "-" + randomName()
	}
	if c.Store == nil {
		c.Store = eventstore.NewMemory(eventstore.MemoryConfig{})
	}
	if c.Cluster != nil {
		own := *c.Cluster
		faults = append(faults, own.resolve(c.Store)...)
		if c.StoreTimeout == 0 {
			fault("StoreTimeout: it cannot be off in a cluster, because clients wait for the directory")
		}
		c.Cluster = &own
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if len(faults) > 0 {
		return fmt.Errorf("rejoin: invalid configuration: %w", errors.Join(faults...))
	}
	return nil
}

// bothEras reports whether both generations are served. c is resolved.
func (c *Config) bothEras() bool { return c.Eras == EraDefault || c.Eras == EraBoth }

// validName reports whether a name has from 1 to limit letters, digits, '-', '_' and the other characters given.
func validName(s string, limit int, also string) bool {
	for _, c := range []byte(s) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte(also, c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= limit
}

// check returns all mistakes of a policy whose defaults are not filled in yet.
func (p Policy) check() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("Policy."+format, args...)) }
	if p.Mode > ModeJSON {
		fault("Mode: unknown value %d", p.Mode)
	}
	q := p.withDefaults()
	switch {
	case p.Retry < 0:
		fault("Retry: it cannot be off, because a client that is disconnected must be told when to come back")
	case q.Retry < time.Millisecond || q.Retry > time.Hour:
		fault("Retry: %v is not from 1 ms to 1 h", q.Retry)
	case p.RetryMax > 0 && p.RetryMax < q.Retry:
		fault("RetryMax: %v is less than Retry, %v", p.RetryMax, q.Retry)
	}
	if p.Mode == ModeJSON && p.CloseAfter > 0 {
		fault("CloseAfter: mode JSON has no stream to close")
	}
	return faults
}

// withDefaults replaces zero values by their defaults. Negative values stay.
func (p Policy) withDefaults() Policy {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	if p.Mode == ModeSSE {
		set(&p.StreamAfter, time.Millisecond)
	}
	if p.CloseAfter > 0 {
		set(&p.TaskAfter, min(p.CloseAfter, defaultTaskAfter))
	}
	set(&p.TaskAfter, defaultTaskAfter)
	set(&p.StreamAfter, 100*time.Millisecond)
	set(&p.Retry, time.Second)
	set(&p.RetryMax, max(30*time.Second, p.Retry))
	set(&p.AbandonAfter, 10*time.Minute)
	set(&p.Retain, 5*time.Minute)
	return p
}

// resolve fills in the defaults, and returns all mistakes.
func (t *Tasks) resolve(principals bool) (faults []error) {
	if t.TTL == 0 {
		t.TTL = 10 * time.Minute
	}
	if t.PollInterval == 0 {
		t.PollInterval = 2 * time.Second
	}
	if t.Max == 0 {
		t.Max = 10_000
	}
	if t.MaxPerPrincipal == 0 && principals && t.Max > 0 {
		t.MaxPerPrincipal = max(t.Max/10, 1)
	}
	if t.TTL < time.Millisecond {
		faults = append(faults, fmt.Errorf("Tasks.TTL: %v is less than 1 ms", t.TTL))
	}
	if t.PollInterval < time.Millisecond || t.PollInterval > time.Hour {
		faults = append(faults, fmt.Errorf("Tasks.PollInterval: %v is not from 1 ms to 1 h", t.PollInterval))
	}
	return faults
}

// core is the policy in the form that the machine takes. Negative durations stay: they mean off there too.
func (p Policy) core() core.Policy {
	p = p.withDefaults()
	return core.Policy{
		Mode: core.Mode(p.Mode), StreamAfter: p.StreamAfter, CloseAfter: p.CloseAfter, Retry: p.Retry, RetryMax: p.RetryMax,
		AbandonAfter: p.AbandonAfter, MaxRuntime: p.MaxRuntime, Retain: p.Retain,
	}
}
