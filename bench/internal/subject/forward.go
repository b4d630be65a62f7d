package subject

import (
	"cmp"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// forwarding are two servers of one cluster, in one process. One owns the sessions, the other one has none and forwards.
var forwarding = func() (all []Subject) {
	for _, s := range []Subject{
		{Name: "json", Base: bareJSON},
		{Name: "sse", Base: bareStore, Stream: true},
	} {
		s.Primes, s.Stores, s.Closes, s.Session, s.Forward = true, true, true, true, true
		s.Notes = "Two servers of rejoin-cluster-" + s.Name + " in one process, each on a port of its own, with one engine in memory. One owns all " +
			"sessions, the other gets all requests and forwards them."
		s.Name, s.New = "rejoin-forwarded-"+s.Name, newForwarding(modeOf(s))
		all = append(all, s)
	}
	return all
}()

// Owner is the server that owns the sessions.
type Owner struct {
	addr     string
	accepted atomic.Int64
}

// Addr is where sessions are opened: "127.0.0.1:port", or "" if that is where the subject serves.
func (o *Owner) Addr() string { return o.addr }

// Accepted returns how many connections it has got.
func (o *Owner) Accepted() int64 { return o.accepted.Load() }

// counted is the listener of an Owner.
type counted struct {
	net.Listener

	owner *Owner
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.owner.accepted.Add(1)
	}
	return c, err
}

func newForwarding(mode rejoin.Mode) func(Options) (http.Handler, error) {
	return func(o Options) (http.Handler, error) {
		e := newEngine(engine{}, o)
		return newPair(mode, o, e, e)
	}
}

// newPair makes the two servers, each with its view of the engine, and returns the one that forwards.
func newPair(mode rejoin.Mode, o Options, owners, others eventstore.Store) (http.Handler, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	owner := cmp.Or(o.Owner, &Owner{})
	owner.addr = l.Addr().String()
	owns, err := newMember(mode, o, owners, "http://"+owner.addr)
	if err != nil {
		return nil, err
	}
	go func() { _ = http.Serve(counted{l, owner}, owns) }() // if it fails, so does what is forwarded to it
	return newMember(mode, o, others, cmp.Or(o.Self, nowhere))
}
