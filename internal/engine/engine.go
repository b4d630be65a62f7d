package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Limits of one message, and of the messages that wait for their turn.
const (
	MaxEventBytes  = 16 << 20 // one event, a response among them
	maxQueuedBytes = 1 << 20  // messages of one stream that wait for its store
)

// Config is what the sessions of a server share.
type Config struct {
	Machine      core.Config
	Store        eventstore.Store
	StoreTimeout time.Duration // of one operation of the store; 0: none
	KeepAlive    time.Duration // a comment after so much silence; 0: none
	Node         string        // names this process in the ids of requests to clients
	Cluster      ClusterConfig // of sessions with an Owner
}

// Engine is what the sessions of a server have in common. Safe for concurrent use.
type Engine struct {
	Counters Counters

	cfg      Config
	instant  bool // the store never waits (eventstore.Instant), so its operations need no deadline
	lastAsk  atomic.Uint64
	stale    *atomic.Int64 // requests that have ended, and that the app still works on
	draining atomic.Bool
	changed  chan struct{} // something has ended while the server drains
}

// Counters count since the engine was made.
type Counters struct {
	Closed, Resumed, TakenOver, Abandoned atomic.Int64
	Expired, StoreFailed, WritesTimedOut  atomic.Int64
}

// New makes an engine. cfg is valid and complete.
func New(cfg Config) *Engine {
	e := &Engine{cfg: cfg, stale: new(atomic.Int64), changed: make(chan struct{}, 1)}
	if i, ok := cfg.Store.(eventstore.Instant); ok {
		e.instant = i.Instant()
	}
	return e
}

// Host is what a session's engine needs of the server around it.
type Host interface {
	// Cause is the error for a reason: contexts end with it, and questions to the client fail with it. It is called under the session's lock.
	Cause(why core.Reason) error
	// Failure is the JSON-RPC error response that takes the place of a response that cannot come. It is called under the session's lock.
	Failure(id []byte, why core.Reason) []byte
	// Ended tells once that the session is over: its requests are cancelled, and its questions have failed. It is called without a lock,
	// from any goroutine.
	Ended(why core.Reason, cause error)
	// Report tells what an operator should know. It is called without a lock, from any goroutine.
	Report(e Event)
}

// Event is something that an operator should know.
type Event struct {
	Kind   Kind
	Err    error
	Stream uint32 // its number in the session
	// First and Last are the numbers of the events that are lost; of StoreLost all those before Last.
	First, Last uint64
	// Where is the code that panicked, or the type of the writer that holds back.
	Where string
	Value any // it panicked with that
	Stack string
}

// Kind says what has happened.
type Kind uint8

// The kinds of events.
const (
	NotResumable Kind = iota // a client that cannot poll was to be let go
	Full                     // the store had no room for a message
	Unsent                   // a message went nowhere after its sender had gone on: Err
	StoreFailed              // an operation of the store failed: Err
	StoreLost                // the store has lost events of a stream: Stream, Last, Err. Told once for each stream
	Gap                      // events of the standalone stream were dropped before its client came: First, Last
	Doubted                  // the client was let go and has not come back
	HeldBack                 // a middleware holds back what is flushed through it: Where
	Panicked                 // code that is not ours has panicked: Where, Value, Stack
)

// Stale counts the requests that have ended and that the app still works on, in all sessions. The server also adds requests without a session.
func (e *Engine) Stale() *atomic.Int64 { return e.stale }

// Drain makes each session tell on Changed when something of it has ended.
func (e *Engine) Drain() { e.draining.Store(true) }

// Draining reports whether Drain was called.
func (e *Engine) Draining() bool { return e.draining.Load() }

// Changed receives when something may have ended since it last did.
func (e *Engine) Changed() <-chan struct{} { return e.changed }

// Notify makes Changed receive.
func (e *Engine) Notify() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// aside does what may take as long as an operation of the store, so that the caller does not wait for it.
func (e *Engine) aside(f func()) {
	if e.instant {
		f()
		return
	}
	go f()
}

// deadline bounds one operation of a store that may wait for a network.
func (e *Engine) deadline() (context.Context, context.CancelFunc) {
	if e.instant || e.cfg.StoreTimeout == 0 {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), e.cfg.StoreTimeout)
}
