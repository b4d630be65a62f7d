package rejoin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Config configures a Server. Zero means the default, negative means off. It is copied and checked once, by NewServer.
type Config struct {
	// Policy is the default of every request.
	Policy Policy
	// PolicyFor changes it for one request: p comes filled in. It runs before the request does; keep it quick.
	PolicyFor func(r RequestInfo, p Policy) Policy
	// Principal names the user of a request; a session answers only to the one that opened it. The values of the router's
	// middleware are in r.Context(). The default treats all as one.
	Principal func(r *http.Request) string
	// CanPoll decides whether a client comes back to the stream of a request when it was let go (SEP-1699). It is asked once per
	// session, when initialize is answered. presumed is the decision without it: yes for version 2025-11-25, unless the client is one of those
	// that are known not to come back (docs/limits.md lists them); no for older versions. For example,
	//
	//	return presumed && client.Name != "never-comes-back" || client.Name == "old-but-polls"
	//
	// A client that cannot poll gets no primer and no retry, on which old clients choke, and is not let go: CloseAfter has no effect on it, and
	// CloseStream returns ErrNotResumable. A client that is let go and does not come back is not let go again in its session, whatever CanPoll says.
	// Defaults to presumed.
	CanPoll func(client ClientInfo, presumed bool) bool

	// AllowedHosts are names and addresses that a request to a loopback address may name, beside loopback ones: those of a proxy
	// on the same machine. Their ports are not looked at, and there are no wildcards. Defaults to none.
	AllowedHosts []string
	// AllowedOrigins are those of web pages that may call the server, such as https://app.example, beside those that equal a Host
	// that was checked. There are no wildcards. Defaults to none.
	AllowedOrigins []string

	KeepAlive      time.Duration // a comment after so much silence. Defaults to 15 s.
	SessionIdleTTL time.Duration // Defaults to 30 min.
	WriteTimeout   time.Duration // per write. Defaults to 30 s.
	StoreTimeout   time.Duration // per operation of the event store. Defaults to 5 s.

	// MaxBodyBytes bounds a POST's body. An initialize has at most 64 KiB, and a batch 1,000 messages, whatever it is. Defaults to 4 MiB.
	MaxBodyBytes int64
	// MaxSessions bounds the sessions. Where there are as many, a new one takes the place of one in which nothing runs, no connection is open, no
	// result waits to be fetched and no question is open: of the oldest whose client has sent nothing since initialize for 30 s, else of the one
	// that has been idle for longest, if that is 5 min. Without such a one it is refused (503). Sessions whose client has sent nothing drive idle
	// ones out only as long as they are less than half. Where Principal is set, each principal may hold as many sessions as there are places left,
	// so a single one half of them; what it opens beyond takes the place of one of its own, as above, or is refused. As many handlers may, in the
	// whole server, work on requests that have ended: with more, no session is opened and no request of the modern era begins (503).
	// Defaults to 10,000.
	MaxSessions int
	// MaxConcurrent bounds the requests in flight in a session. Pings take none of these places, as long as no more than 16 of them are
	// unanswered. Four times as many may be worked on, with those that have ended (cancelled, say) and whose handlers have not returned. Over
	// either bound a request is refused (429). Defaults to 64.
	MaxConcurrent int
	NoStandalone  bool // answer a GET without Last-Event-ID with 405

	// Eras says which protocol generations are served. A client that speaks both chooses the modern one wherever it is offered,
	// and there nobody can poll. Of this configuration a modern request obeys the allowed hosts and origins, MaxBodyBytes, KeepAlive and
	// WriteTimeout; the rest is about sessions. Defaults to Legacy.
	Eras Eras
	// Store keeps the events. Defaults to eventstore.NewMemory(eventstore.MemoryConfig{}).
	Store eventstore.Store
	// Node names this process in the ids it makes: letters, digits, '-' and '_', at most 32. Defaults to random.
	Node string
	// Logger gets what an operator should know. Defaults to slog.Default().
	Logger *slog.Logger
}

// Policy says how the stream of a request behaves. Zero means the default, negative means off.
type Policy struct {
	// Mode is the form of the answer. Defaults to Auto.
	Mode Mode
	// StreamAfter is how long the response head may wait for the response. Defaults to 100 ms, in mode SSE to 1 ms.
	StreamAfter time.Duration
	// CloseAfter lets the client go once a response has been open so long, whatever the tool does, and however slowly the client reads:
	// what is being written then is, a piece of at most 64 KiB or one larger message, and the client comes back for the rest. Set it below
	// your proxy's limit and every tool survives that proxy unchanged. Only for clients that poll (Config.CanPoll). Defaults to off.
	CloseAfter time.Duration
	// Retry is what the client is told to wait, from 1 ms to 1 h; it grows by half with each poll that comes and goes and
	// brings nothing, up to RetryMax, and starts anew with one that was held for CloseAfter. Each client gets up to a fifth
	// more at random. Defaults to 1 s and 30 s.
	Retry, RetryMax time.Duration
	// AbandonAfter cancels a request whose client is overdue for so long: counted from when it was told to be back.
	// Defaults to 10 min.
	AbandonAfter time.Duration
	// MaxRuntime cancels a call that runs longer: middleware time-outs no longer reach it. Defaults to off.
	MaxRuntime time.Duration
	// Retain keeps a stream after its response was recorded and its client was due back. Defaults to 5 min; off: as long as
	// the session, while there is room.
	Retain time.Duration
}

// Mode is the form of the answer to a POST.
type Mode uint8

const (
	// Auto answers with plain JSON if the response comes before anything else has to be sent and within StreamAfter, else with
	// a stream.
	Auto Mode = iota
	// SSE always answers with a stream.
	SSE
	// JSON never does. What a tool sends on the way goes to the standalone stream, progress is dropped, and asking the client
	// is ErrNoStream unless that stream is open.
	JSON
)

// Eras is a choice of protocol generations.
type Eras uint8

const (
	// Legacy serves versions up to 2025-11-25; modern requests are refused so that clients of both eras fall back at once.
	Legacy Eras = iota
	// Both serves both on one URL.
	Both
	// Modern serves 2026-07-28 and later alone.
	Modern
)

// RequestInfo is what PolicyFor may look at.
type RequestInfo struct {
	Method string // "tools/call"
	Name   string // params.name of tools/call and prompts/get, params.uri of resources/read
	Client ClientInfo
	// Polls: the client is let go where CloseAfter or a tool says so. A request without it keeps its connection to the end. False for initialize.
	Polls bool
	HTTP  *http.Request
}

const (
	maxEventBytes  = 16 << 20 // one event, a response among them
	maxQueuedBytes = 1 << 20  // messages of one stream that wait for its store
	maxJSONDepth   = 256
	maxIDBytes     = 1 << 10 // a request's id, which outlives the request, and a progress token
	// maxSpellingBytes is how long an id can be where a client names a request again, with each byte of it escaped.
	maxSpellingBytes   = 6 * maxIDBytes
	maxBatch           = 1000      // messages
	maxInitializeBytes = 64 << 10  // its body: sessions and SDKs keep parts of it
	maxKeptIDBytes     = 128 << 10 // ids of ended requests that a session keeps, and as many of dropped ones
	maxEnded           = 256       // ended streams that a session keeps: they have memory to themselves, and the collector looks at each
	maxRemembered      = 1000      // dropped ones that it remembers
)

// resolve fills in the defaults and names all contradictions together.
func (c *Config) resolve(app App) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if app == nil {
		fault("NewServer needs an App")
	} else if c.Eras != Legacy && app.Modern() == nil {
		fault("Eras: the app serves no modern requests (App.Modern is nil)")
	}
	if made, ok := app.(*handlerApp); ok {
		faults = append(faults, made.faults...)
	}
	if c.Eras > Modern {
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
	for _, h := range c.AllowedHosts {
		if !validHost(h) {
			fault("AllowedHosts: %q is no host such as api.example.com", h)
		}
	}
	for _, o := range c.AllowedOrigins {
		if _, ok := parseOrigin(o); !ok {
			fault("AllowedOrigins: %q is no origin such as https://example.com", o)
		}
	}
	if c.Node == "" {
		c.Node = randomName()
	} else if !validNode(c.Node) {
		fault("Node: %q: letters, digits, '-' and '_', at most 32", c.Node)
	}
	if c.Store == nil {
		c.Store = eventstore.NewMemory(eventstore.MemoryConfig{})
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if len(faults) > 0 {
		return fmt.Errorf("rejoin: invalid configuration: %w", errors.Join(faults...))
	}
	return nil
}

func validNode(s string) bool {
	for _, c := range []byte(s) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(s) <= 32
}

// check names what contradicts itself in a policy, before defaults.
func (p Policy) check() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("Policy."+format, args...)) }
	if p.Mode > JSON {
		fault("Mode: unknown value %d", p.Mode)
	}
	q := p.withDefaults()
	switch {
	case p.Retry < 0:
		fault("Retry: a client that is sent away must be told when to come back")
	case q.Retry < time.Millisecond || q.Retry > time.Hour:
		fault("Retry: %v is not from 1 ms to 1 h", q.Retry)
	case p.RetryMax > 0 && p.RetryMax < q.Retry:
		fault("RetryMax: %v is less than Retry, %v", p.RetryMax, q.Retry)
	}
	if p.Mode == JSON && p.CloseAfter > 0 {
		fault("CloseAfter: mode JSON has no stream to close")
	}
	return faults
}

// withDefaults fills in what is zero. Negative values stay.
func (p Policy) withDefaults() Policy {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	if p.Mode == SSE {
		set(&p.StreamAfter, time.Millisecond)
	}
	set(&p.StreamAfter, 100*time.Millisecond)
	set(&p.Retry, time.Second)
	set(&p.RetryMax, max(30*time.Second, p.Retry))
	set(&p.AbandonAfter, 10*time.Minute)
	set(&p.Retain, 5*time.Minute)
	return p
}

// core is the policy as the machine takes it: durations that are off stay negative, which it takes for off.
func (p Policy) core() core.Policy {
	p = p.withDefaults()
	return core.Policy{
		Mode: core.Mode(p.Mode), StreamAfter: p.StreamAfter, CloseAfter: p.CloseAfter, Retry: p.Retry, RetryMax: p.RetryMax,
		AbandonAfter: p.AbandonAfter, MaxRuntime: p.MaxRuntime, Retain: p.Retain,
	}
}
