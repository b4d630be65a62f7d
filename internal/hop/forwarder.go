package hop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/safe"
)

// Owner is a process to which requests are forwarded. Self is the URL of its router, and Incarnation names one run of it.
type Owner struct{ Self, Incarnation string }

// Config is what a Forwarder needs.
type Config struct {
	Transport http.RoundTripper // nil: one of its own
	Self      string            // the URL of this process
	// Lease is how long an owner may be silent while a request waits for it.
	Lease time.Duration
	// Gone reports whether an owner is known to be dead. It is called from a goroutine of the Forwarder, and must be quick.
	Gone func(Owner) bool
}

// Forwarder forwards requests. Safe for concurrent use.
type Forwarder struct {
	cfg       Config
	transport http.RoundTripper
	by        string // Self in its escaped form

	ending atomic.Bool // LetGo was called
	over   atomic.Bool // End was called

	mu    sync.Mutex
	peers map[Owner]*peer
}

// New makes a Forwarder.
func New(cfg Config) *Forwarder {
	f := &Forwarder{cfg: cfg, transport: cfg.Transport, by: url.QueryEscape(cfg.Self), peers: map[Owner]*peer{}}
	if f.transport == nil {
		f.transport = newTransport(cfg.Lease)
	}
	return f
}

// idleConns is how many unused connections to each process are kept. With the two that net/http keeps, most requests of a burst would dial.
const idleConns = 1000

// newTransport makes what forwards where the user gives no Transport. It uses no proxy: the environment is about the world outside, and requests
// carry credentials.
func newTransport(lease time.Duration) *http.Transport {
	dialer := &net.Dialer{
		Timeout:         lease / 3,
		Control:         unacknowledged(lease),
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: max(lease/3, time.Second), Interval: max(lease/6, time.Second), Count: 3},
	}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: lease / 3, DisableCompression: true, MaxIdleConns: 0, MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true,
		// All requests to a process share one connection of HTTP/2. Without pings, one that is dead and not closed would be used for many minutes.
		HTTP2: &http.HTTP2Config{SendPingTimeout: lease / 3, PingTimeout: lease / 3},
	}
}

// Errors of Send.
var (
	// ErrUnreached says that no connection to the owner was made, so the request has provably not arrived.
	ErrUnreached = errors.New("the owner could not be reached")
	// ErrMisdirected says that the process that answered does not have the session, and has not looked at the request.
	ErrMisdirected = errors.New("the process that was asked does not own the session")
	// ErrReplaced is ErrMisdirected where another process than the owner has answered.
	ErrReplaced = errors.New("another process has the address of the owner")
	// ErrSilent says that the owner has not answered for a lease, or is dead. The request may have arrived.
	ErrSilent = errors.New("the owner does not answer")
	// ErrLetGo ends a stream whose client can come back: this process lets its clients go.
	ErrLetGo = errors.New("this process lets its clients go")
	// ErrStopped ends a call: this process ends.
	ErrStopped = errors.New("this process ends")
	errOver    = errors.New("the request is over")
)

// add registers a request with the peer that it goes to.
func (f *Forwarder) add(o Owner, a *Answer) (*peer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.peers[o]
	if p == nil {
		at, err := url.Parse(o.Self)
		if err != nil {
			return nil, err
		}
		p = &peer{f: f, owner: o, at: at, open: map[*Answer]struct{}{}, base: time.Now()}
		p.note = p.values(Note{})
		f.peers[o] = p
	}
	p.add(a)
	return p, nil
}

// LetGo ends the streams whose clients can come back, now and from now on, each between two events.
func (f *Forwarder) LetGo() {
	f.ending.Store(true)
	for _, a := range f.all() {
		a.letGo()
	}
}

// all returns the requests that have no complete answer.
func (f *Forwarder) all() (open []*Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.peers {
		open = append(open, p.all()...)
	}
	return open
}

// End is LetGo, and ends the streams with Stream.MayEnd too.
func (f *Forwarder) End() {
	f.over.Store(true)
	f.LetGo()
}

// Stop is End, and ends the calls that are under way now, with ErrStopped. They go on at their owners. Other requests take no longer than a lease.
func (f *Forwarder) Stop() {
	f.End()
	for _, a := range f.all() {
		if a.isCall {
			a.cancel(ErrStopped)
		}
	}
}

// Waiting returns how many POSTs have no complete answer yet, and clients that would not come back for it.
func (f *Forwarder) Waiting() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.peers {
		n += p.count()
	}
	return n
}

// CloseIdle closes connections that are not used. The Transport of a user is the user's.
func (f *Forwarder) CloseIdle() {
	if t, ok := f.transport.(*http.Transport); ok && f.cfg.Transport == nil {
		t.CloseIdleConnections()
	}
}

// ProbeSelf asks through the router of this process whether the process at Self is this one: nil, or why not. like is a request that passed through
// that router.
func (f *Forwarder) ProbeSelf(ctx context.Context, incarnation string, like *http.Request) error {
	at, err := url.Parse(f.cfg.Self)
	if err != nil {
		return err
	}
	q := Request{Request: like}
	return f.probe(ctx, Owner{f.cfg.Self, incarnation}, q.out(ctx, at, http.MethodGet, nil))
}

// probe asks whether a process answers. like is a request as it is sent to it, which is not changed.
func (f *Forwarder) probe(ctx context.Context, o Owner, like *http.Request) error {
	note := Note{To: o.Incarnation, Probe: true}
	r := &http.Request{Method: http.MethodGet, URL: like.URL, Proto: like.Proto, ProtoMajor: 1, ProtoMinor: 1, Header: like.Header.Clone(), Host: like.Host}
	r.Header[Header] = []string{string(note.append(nil, f.by))}
	res, err := f.roundTrip(r.WithContext(ctx))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	switch res.Header.Get(Mark) {
	case o.Incarnation:
		return nil
	case "":
		return &ForeignError{Status: res.StatusCode}
	}
	return ErrReplaced
}

// roundTrip calls the Transport. That of a user may panic, or break its contract: probes are sent by goroutines that have no caller that recovers.
func (f *Forwarder) roundTrip(r *http.Request) (res *http.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			res, err = nil, fmt.Errorf("the Transport has panicked: %v\n%s", v, safe.Stack())
		}
	}()
	res, err = f.transport.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case res == nil:
		return nil, errors.New("the Transport has returned neither a response nor an error")
	case res.Body == nil:
		res.Body = http.NoBody
	}
	return res, nil
}
