package clustertest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Call is an operation as a script sees it.
type Call struct {
	// Op is one of "join", "renew", "leave", "put", "find", "adopt", "save", "touch", "release" and "end", or of "append", "restore",
	// "read", "drop" and "dropsession".
	Op              string
	N               int    // the how many-th of that name through this Faulty, from 1 on
	Session, Stream string // where the operation has them
	Events          int    // of append and restore
}

// Fault is what happens to a call. The zero value lets it pass. The parts take effect in the order of the fields.
type Fault struct {
	Delay time.Duration   // before the engine gets the call
	Block <-chan struct{} // the engine gets the call when this is closed; nil: at once
	// Late says that the engine gets the call although its context has ended during Delay, Block or a Silent link: it was on its
	// way. Otherwise nothing is done then.
	Late        bool
	Before      error         // the call returns it, and nothing is done
	After       error         // the call returns it, and has been done: its answer was lost
	DelayAnswer time.Duration // after the engine has done it
}

// Link is what is between a process and the engine.
type Link int32

// Links.
const (
	Up      Link = iota
	Refused      // calls fail at once with ErrUnreachable, and nothing is done
	Silent       // nothing arrives. Calls wait until the link is another one, or their context ends.
	Deaf         // calls arrive and are done, but no answer comes back. When the link is another one, they fail with ErrUnreachable.
)

// ErrUnreachable is the error of calls through a link that is not Up.
var ErrUnreachable = errors.New("clustertest: the engine cannot be reached")

// Faulty is the way of one process to an engine: a directory and its store in one, around those of the engine. It makes them fail, lose
// answers, block, and be slow, as a script says, and unreachable, as its Link says. It counts calls. For several processes make several,
// around one engine.
//
// Mark is not a call: it goes straight to the store if the Link is Up, and is lost otherwise. Close closes only this way to the engine.
// Faulty is a Wrapper around the store. It is not Instant unless it is told to be.
type Faulty struct {
	directory cluster.Directory
	store     eventstore.Store
	instant   atomic.Bool
	closed    atomic.Bool

	mu      sync.Mutex
	script  func(Call) Fault
	link    Link
	changed chan struct{} // closed when link changes
	calls   map[string]int
}

var (
	_ cluster.Directory  = (*Faulty)(nil)
	_ eventstore.Store   = (*Faulty)(nil)
	_ eventstore.Wrapper = (*Faulty)(nil)
	_ eventstore.Instant = (*Faulty)(nil)
)

// NewFaulty returns a way to the engine that d and s belong to. script is called before each call, in the caller's goroutine, also at
// once from several. It must not wait: that is what the fields of Fault are for. A nil script lets everything pass. If the context had
// ended before the call, script is not called, but the call is counted.
//
// A Faulty that is used in a synctest bubble must be made in it. A Fault with Late may leave a goroutine until its delay is over.
func NewFaulty(d cluster.Directory, s eventstore.Store, script func(Call) Fault) *Faulty {
	return &Faulty{directory: d, store: s, script: script, changed: make(chan struct{}), calls: make(map[string]int)}
}

// SetScript replaces the script.
func (f *Faulty) SetScript(script func(Call) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = script
}

// SetLink replaces the link, for calls that wait too.
func (f *Faulty) SetLink(l Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.link = l
	close(f.changed)
	f.changed = make(chan struct{})
}

// SetInstant makes the store Instant or not. It is called before the store is used. The calls of an Instant store may fail, but must not
// wait.
func (f *Faulty) SetInstant(instant bool) { f.instant.Store(instant) }

// Instant implements eventstore.Instant.
func (f *Faulty) Instant() bool { return f.instant.Load() }

// Unwrap implements eventstore.Wrapper.
func (f *Faulty) Unwrap() eventstore.Store { return f.store }

// Close closes this way to the engine. The engine stays open.
func (f *Faulty) Close() error {
	f.closed.Store(true)
	return nil
}

// Calls returns how many calls there were of each name, those that failed too. A name without calls is missing.
func (f *Faulty) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// Count returns how many calls there were of the names given, together; of all names if none is given.
func (f *Faulty) Count(ops ...string) int {
	calls, n := f.Calls(), 0
	for op, count := range calls {
		if len(ops) == 0 {
			n += count
		}
		for _, wanted := range ops {
			if op == wanted {
				n += count
			}
		}
	}
	return n
}

// begin counts a call and asks the script.
func (f *Faulty) begin(ctx context.Context, c Call) (Fault, error) {
	f.mu.Lock()
	f.calls[c.Op]++
	c.N = f.calls[c.Op]
	script := f.script
	f.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return Fault{}, ctx.Err()
	case f.closed.Load():
		return Fault{}, eventstore.ErrClosed
	case script == nil:
		return Fault{}, nil
	}
	return script(c), nil
}

// arrive waits until the call reaches the engine. ErrUnreachable and the fault's Before say that it never does.
func (f *Faulty) arrive(ctx context.Context, fault *Fault) error {
	if err := f.sleep(ctx, &fault.Delay); err != nil {
		return err
	}
	if fault.Block != nil {
		select {
		case <-fault.Block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		link, changed := f.now()
		switch link {
		case Refused:
			return ErrUnreachable
		case Silent:
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		case Up, Deaf:
		}
		return fault.Before
	}
}

// sleep waits for d, and leaves in d what it has not waited.
func (f *Faulty) sleep(ctx context.Context, d *time.Duration) error {
	if *d <= 0 {
		return nil
	}
	start := time.Now()
	timer := time.NewTimer(*d)
	defer timer.Stop()
	select {
	case <-timer.C:
		*d = 0
		return nil
	case <-ctx.Done():
		*d -= time.Since(start)
		return ctx.Err()
	}
}

func (f *Faulty) now() (Link, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.link, f.changed
}

// answer waits until the answer of a call that was done reaches the caller.
func (f *Faulty) answer(ctx context.Context, fault *Fault) error {
	if fault.After != nil {
		return fault.After
	}
	if err := f.sleep(ctx, &fault.DelayAnswer); err != nil {
		return err
	}
	link, changed := f.now()
	if link != Deaf {
		return nil
	}
	select {
	case <-changed:
		return ErrUnreachable
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call is one call. do is the operation of the engine.
func call[T any](f *Faulty, ctx context.Context, c Call, do func(ctx context.Context) (T, error)) (T, error) { //nolint:revive // f is a receiver
	var none T
	fault, err := f.begin(ctx, c)
	if err != nil {
		return none, err
	}
	if err := f.arrive(ctx, &fault); err != nil {
		if fault.Late && ctx.Err() != nil {
			late := context.WithoutCancel(ctx)
			go func() {
				if f.arrive(late, &fault) == nil {
					_, _ = do(late)
				}
			}()
		}
		return none, err
	}
	v, err := do(ctx)
	if lost := f.answer(ctx, &fault); lost != nil {
		return none, lost
	}
	return v, err
}
