package cluster_test

import (
	"context"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// history knows the keys of all logs that the processes of a world have used. With them a test makes the engine lose some of what it has.
type history struct {
	mu   sync.Mutex
	keys []eventstore.Key
	w    *world
}

// noted is a way to the engine that notes the keys of logs.
type noted struct {
	*clustertest.Faulty
	h *history
}

func (s *noted) Log(k eventstore.Key) eventstore.Log {
	s.h.mu.Lock()
	s.h.keys = append(s.h.keys, k)
	s.h.mu.Unlock()
	return s.Faulty.Log(k)
}

// newWatchedWorld starts a world with a history.
func newWatchedWorld(t *testing.T, o options) (*world, *history) {
	t.Helper()
	h := &history{}
	inner := o.config
	o.config = func(c *rejoin.Config) {
		c.Store = &noted{c.Store.(*clustertest.Faulty), h}
		if inner != nil {
			inner(c)
		}
	}
	h.w = newWorld(t, o)
	return h.w, h
}

// all returns the keys, each once: the newest of each stream.
func (h *history) all() (keys []eventstore.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := map[string]int{}
	for _, k := range h.keys {
		if i, known := at[k.Session+k.Stream]; known {
			keys[i] = k
			continue
		}
		at[k.Session+k.Stream] = len(keys)
		keys = append(keys, k)
	}
	return keys
}

// logState is what the engine has of a log.
type logState struct {
	key    eventstore.Key
	events [][]byte
	state  eventstore.State
}

func (h *history) read(k eventstore.Key) logState {
	l := logState{key: k}
	unfenced := k
	unfenced.Fence = eventstore.Fence{}
	var window [64]eventstore.Event
	for after := uint64(0); ; {
		n, state, err := h.w.engine.Log(unfenced).Read(context.Background(), after, window[:], 0)
		require.NoError(h.w.t, err)
		l.state = state
		for _, e := range window[:n] {
			l.events = append(l.events, e.Data)
			after = e.Seq
		}
		if n == 0 {
			return l
		}
	}
}

// loseTails makes the engine lose the last n events of each log, and that it was sealed. The counts of processes stand.
func (h *history) loseTails(n int) {
	ctx, r := context.Background(), h.record()
	owner, err := h.w.engine.Join(ctx, cluster.Member{
		Process: cluster.Process{Cluster: "test", Incarnation: r.Fence.Incarnation, Self: r.Self}, Generation: r.Generation,
	}, lease)
	require.NoError(h.w.t, err)
	c := h.save()
	for i := range c.logs {
		l := &c.logs[i]
		l.events, l.state.Sealed = l.events[:max(len(l.events)-n, 0)], false
	}
	h.goBack(c)
	_, err = h.w.engine.Renew(ctx, owner, lease)
	require.NoError(h.w.t, err)
}

// copyOfEngine is the records and logs of an engine at one time.
type copyOfEngine struct {
	records []cluster.Record
	logs    []logState
}

// save copies what the engine has.
func (h *history) save() (c copyOfEngine) {
	seen := map[string]bool{}
	for _, k := range h.all() {
		if !seen[k.Session] {
			seen[k.Session] = true
			found, err := h.w.engine.Find(context.Background(), k.Session, cluster.Process{})
			require.NoError(h.w.t, err)
			c.records = append(c.records, *found.Record)
		}
		if l := h.read(k); l.state.Last > 0 || l.state.First > 0 {
			c.logs = append(c.logs, l)
		}
	}
	return c
}

// goBack makes the engine what it was, without any process.
func (h *history) goBack(c copyOfEngine) {
	ctx := context.Background()
	h.w.engine.Forget()
	for i := range c.records {
		require.NoError(h.w.t, h.w.engine.Put(ctx, &c.records[i], time.Hour))
	}
	for _, l := range c.logs {
		k := l.key
		for i := range c.records {
			if c.records[i].Session == k.Session {
				k.Fence = c.records[i].Fence
			}
		}
		require.NoError(h.w.t, h.w.engine.Log(k).Restore(ctx, l.state.First, l.events, l.state.Sealed))
	}
}

// record returns the record of the only session.
func (h *history) record() *cluster.Record {
	found, err := h.w.engine.Find(context.Background(), h.all()[0].Session, cluster.Process{})
	require.NoError(h.w.t, err)
	return found.Record
}

// An error that an adopted stream ends with has an id with a nonce.
var withNonce = regexp.MustCompile(`strange\(event: message\nid: [A-Za-z0-9_-]{22}\.([0-9]+)\.[0-9a-z]+\ndata: (\{[^\n]*\})\)`)

// lastOf is kit.Last, in which an event whose id has a nonce is its sequence, "~" and the summary of its message.
func lastOf(call *rejointest.Call) string {
	return withNonce.ReplaceAllStringFunc(kit.Last(call), func(strange string) string {
		parts := withNonce.FindStringSubmatch(strange)
		return parts[1] + "~:" + kit.MessageSummary(parts[2])
	})
}

// savedStates is an app with manual tools that remembers the state with which it was opened.
func savedStates(int) (rejoin.App, func() *kit.ManualTool) {
	app, next := kit.ManualTools()
	return reopened{app}, next
}

// reopened saves the state again with which it is opened.
type reopened struct{ rejoin.App }

func (a reopened) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	if state != nil {
		_ = s.SaveState(state) // it has not ended
	}
	return a.App.Open(r, s, state)
}

// another is a process that adopts sessions, as the directory knows it.
var another = cluster.Member{Process: cluster.Process{Cluster: "test", Incarnation: "another", Self: "http://another"}, Generation: 1}

// panicking is a way to the engine whose appends panic while that is set.
type panicking struct {
	*noted
	set *atomic.Bool
}

func (s *panicking) Log(k eventstore.Key) eventstore.Log { return &panickingLog{s.noted.Log(k), s.set} }

type panickingLog struct {
	eventstore.Log
	set *atomic.Bool
}

func (l *panickingLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	if l.set.Load() {
		panic("the store is broken")
	}
	return l.Log.Append(ctx, first, events, seal)
}

// savesAtOnce is an app that saves a state when a session is opened.
type savesAtOnce struct{ rejoin.App }

func (a savesAtOnce) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	_ = s.SaveState([]byte("at once")) // it has not ended
	return a.App.Open(r, s, state)
}

// err returns the error of looking a session up.
func (h *history) err(session string) error {
	_, err := h.w.engine.Find(context.Background(), session, cluster.Process{})
	return err
}
