package store_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// stroke is a failure of one operation of a store, or of all of its kind from that one on.
type stroke struct {
	kind string // fails, is gone (without a reason), panics, lies (succeeds and returns an error), drags (is slow), blocks
	op   string // "": no failure
	n    int
	ever bool
}

func (s stroke) String() string {
	which := "alone"
	if s.ever {
		which = "and all after it"
	}
	return fmt.Sprintf("%s %d %s: %s", s.op, s.n, which, s.kind)
}

// struckStore is a memory store with a stroke. Package storetest's Faulty does most of it; panics, lies and Mark are done here.
type struckStore struct {
	eventstore.Store
	stroke
	release chan struct{}

	mu    sync.Mutex
	seen  map[string]int
	fired int
}

func newStruckStore(how stroke) *struckStore {
	s := &struckStore{stroke: how, release: make(chan struct{}), seen: map[string]int{}}
	s.Store = storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(op string, n int) error {
		if s.meets(op, "fails", "is gone", "drags", "blocks") {
			switch s.kind {
			case "fails":
				return kit.ErrStore
			case "is gone":
				return eventstore.ErrGone
			case "drags":
				kit.Elapse(dragged)
			case "blocks":
				<-s.release
			}
		}
		return nil
	})
	return s
}

const dragged = time.Second

// meets counts an operation, and reports whether it fails in one of these ways.
func (s *struckStore) meets(op string, kinds ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := false
	for _, kind := range kinds {
		mine = mine || kind == s.kind
	}
	if !mine && s.op != "" {
		return false
	}
	s.seen[op]++
	if !mine || s.op != op || s.seen[op] != s.n && (!s.ever || s.seen[op] < s.n) {
		return false
	}
	s.fired++
	return true
}

func (s *struckStore) Log(k eventstore.Key) eventstore.Log { return struckLog{s.Store.Log(k), s} }

func (s *struckStore) DropSession(ctx context.Context, session string) error {
	return s.around("dropsession", func() error { return s.Store.DropSession(ctx, session) })
}

func (s *struckStore) around(op string, do func() error) error {
	switch {
	case s.op == "" || !s.meets(op, "panics", "lies"):
		return do()
	case s.kind == "panics":
		panic("the store is broken")
	}
	_ = do()
	return kit.ErrStore
}

type struckLog struct {
	eventstore.Log
	s *struckStore
}

func (l struckLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	return l.s.around("append", func() error { return l.Log.Append(ctx, first, events, seal) })
}

func (l struckLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (n int, st eventstore.State, err error) {
	err = l.s.around("read", func() error {
		n, st, err = l.Log.Read(ctx, after, buf, maxBytes)
		return err
	})
	return n, st, err
}

func (l struckLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	return l.s.around("restore", func() error { return l.Log.Restore(ctx, first, events, seal) })
}

func (l struckLog) Mark(m eventstore.Mark) {
	if l.s.meets("mark", "panics") {
		panic("the store is broken")
	}
	l.Log.Mark(m)
}

func (l struckLog) Drop(ctx context.Context) error {
	return l.s.around("drop", func() error { return l.Log.Drop(ctx) })
}

// faultyWorld is a server with such a store and two sessions: in one of them calls are closed, cut, cancelled, asked and resumed beside the standalone
// stream; the other one has nothing to do with it.
type faultyWorld struct {
	t       *testing.T
	s       *rejoin.Server
	store   *struckStore
	asides  atomic.Int64
	unasked atomic.Int64
	mu      sync.Mutex
	wrong   []string

	took time.Duration     // the time of the longest call
	ends map[string]string // how each client ended
}

func (w *faultyWorld) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// play runs the script with one stroke, and returns how each client ended.
func (w *faultyWorld) play(how stroke) (ends map[string]string) {
	w.store = newStruckStore(how)
	let := sync.OnceFunc(func() { close(w.store.release) })
	w.t.Cleanup(let)
	w.s = kit.NewServer(w.t, w.steps(), rejoin.Config{
		Store: w.store, Logger: kit.QuietLogger(), Policy: rejoin.Policy{StreamAfter: 10 * time.Millisecond, Retain: 2 * time.Second},
	})
	resting := len(kit.Goroutines())
	first, sibling := w.opened(), w.opened()
	var all []*asker
	var calls, listens sync.WaitGroup
	start := func(k *asker, group *sync.WaitGroup) *asker {
		k.t, k.s = w.t, w.s
		all = append(all, k)
		group.Go(k.run)
		return k
	}
	listener := start(&asker{session: first}, &listens)
	synctest.Wait()
	start(&asker{session: first, name: "polled"}, &calls)
	start(&asker{session: first, name: "parked"}, &calls)
	start(&asker{session: first, name: "cut", cutAt: 600 * time.Millisecond}, &calls)
	gone := start(&asker{session: first, name: "cancelled"}, &calls)
	start(&asker{session: sibling, name: "steady"}, &calls)
	time.AfterFunc(time.Second, func() {
		gone.mu.Lock()
		gone.quits = true
		gone.mu.Unlock()
		gone.says(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"cancelled"}}`)
	})
	calls.Wait()
	kit.Elapse(10 * time.Second) // until ended streams are dropped
	began := time.Now()
	for _, id := range []string{first, sibling} {
		require.Equal(w.t, "200 result ended", kit.Serve(w.s, kit.InSession(w.t, id, kit.Ping)).Summary(), how)
	}
	require.Zero(w.t, time.Since(began), how)
	start(&asker{session: first, name: "parked"}, &calls) // the session still works
	start(&asker{session: sibling, name: "steady"}, &calls)
	calls.Wait()
	kit.Elapse(10 * time.Second)
	for _, id := range []string{first, sibling} {
		r := kit.InSession(w.t, id, "")
		r.Method = http.MethodDelete
		began = time.Now()
		require.Equal(w.t, "204 ended", kit.Serve(w.s, r).Summary(), how)
		require.Zero(w.t, time.Since(began), "%v: DELETE waits for nothing", how)
	}
	listens.Wait()
	kit.Elapse(time.Minute)
	let()
	running := kit.Goroutines()
	require.LessOrEqual(w.t, len(running), resting, "%v: %s", how, strings.Join(running, "\n\n"))
	ends = map[string]string{}
	for i, k := range all {
		require.Empty(w.t, k.wrong, "%v: %s", how, k.over)
		ends[fmt.Sprint(i, " ", k.name)] = fmt.Sprint(k.over, " ", k.heard)
		if k != listener {
			w.took = max(w.took, k.ended)
		}
	}
	require.Empty(w.t, w.wrong, how)
	stats := w.s.Stats()
	require.Zero(w.t, stats.Sessions+stats.Streams+stats.Connections+stats.Parked+stats.Full, how)
	return ends
}
