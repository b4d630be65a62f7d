package rejoin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// watchedStore counts what it is asked to keep.
type watchedStore struct {
	*eventstore.Memory
	logs, appends atomic.Int64
}

func newWatchedStore() *watchedStore {
	return &watchedStore{Memory: eventstore.NewMemory(eventstore.MemoryConfig{})}
}

func (s *watchedStore) Log(k eventstore.Key) eventstore.Log {
	s.logs.Add(1)
	return watchedLog{s.Memory.Log(k), s}
}

type watchedLog struct {
	eventstore.Log
	s *watchedStore
}

func (l watchedLog) Append(ctx context.Context, seq uint64, data []byte, seal bool) error {
	l.s.appends.Add(1)
	return l.Log.Append(ctx, seq, data, seal)
}

// refused is a kind of request that is refused, and how.
type refused struct {
	name, method, body string
	header             []string
	host               string // not "": it comes to a loopback address, and names this host
	want               string
}

// crowd is a server that is full: three sessions, one of them with a call that runs, a second with two parked ones.
type crowd struct {
	srv   *rejoin.Server
	store *watchedStore
	ids   []string
	calls []*response
	next  func() *puppet
}

func newCrowd(t *testing.T, cfg rejoin.Config) *crowd {
	t.Helper()
	c := &crowd{store: newWatchedStore()}
	var app rejoin.App
	app, c.next = puppets()
	cfg.Store, cfg.MaxSessions, cfg.MaxConcurrent, cfg.MaxBodyBytes, cfg.Logger = c.store, 3, 2, 4096, quietLogger()
	cfg.Principal = byUser
	c.srv = newServer(t, app, cfg)
	for range 3 {
		id, no := opens(t, c.srv)
		require.Empty(t, no)
		require.Equal(t, http.StatusAccepted, says(t, c.srv, id, "notifications/initialized"))
		c.ids = append(c.ids, id)
	}
	for i, n := range []int{1, 2} {
		for k := range n {
			c.calls = append(c.calls, serve(c.srv, inSession(t, c.ids[i], fmt.Sprintf(`{"jsonrpc":"2.0","id":"busy%d","method":"x"}`, k))))
		}
	}
	return c
}

// refuses has each kind refused that many times, and requires that it leaves nothing behind.
func (c *crowd) refuses(t *testing.T, kinds []refused, times int) {
	t.Helper()
	resting := len(goroutines())
	before := c.srv.Stats()
	logs, appends := c.store.logs.Load(), c.store.appends.Load()
	var heap uint64
	for round := range times {
		if round == 1 { // pools are filled
			heap = heapAlloc()
		}
		for _, kind := range kinds {
			method := kind.method
			if method == "" {
				method = http.MethodPost
			}
			r := request(t, method, kind.body, kind.header...)
			if _, set := r.Header["Mcp-Session-Id"]; !set {
				r.Header.Set("Mcp-Session-Id", c.ids[0])
			}
			if kind.host != "" {
				r = toLoopback(r)
				r.Host = kind.host
			}
			if story := serve(c.srv, r).story(); story != kind.want+" ended" {
				require.Equal(t, kind.want+" ended", story, kind.name)
			}
		}
	}
	grown := int64(heapAlloc()) - int64(heap)
	require.Less(t, grown, int64(1<<20), "after %d refusals", (times-1)*len(kinds))
	after := c.srv.Stats()
	require.EqualValues(t, times*len(kinds), after.Refused-before.Refused)
	after.Refused = before.Refused
	require.Equal(t, before, after)
	require.Equal(t, logs, c.store.logs.Load(), "logs of the store")
	require.Equal(t, appends, c.store.appends.Load(), "events of the store")
	running := goroutines()
	require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
}

// lives requires that all three sessions do.
func (c *crowd) lives(t *testing.T) {
	t.Helper()
	for range c.calls {
		c.next().returns("done")
	}
	for _, w := range c.calls {
		require.Contains(t, w.story(), "result")
	}
	for _, id := range c.ids {
		require.Equal(t, "200 result ended", serve(c.srv, inSession(t, id, ping)).story())
	}
}

func heapAlloc() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the pools held goes with the second
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Invariant 7, many times over: whatever is refused, however often, leaves no session, stream, log, goroutine or memory behind, also where
// the server is full, and harms nobody who is there.
func TestRefusalsLeaveNothingHoweverMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCrowd(t, rejoin.Config{})
		var kinds []refused
		for _, d := range door {
			kinds = append(kinds, refused{name: d.name, method: d.method, body: d.body, header: d.header, want: d.want})
		}
		full := []string{"Mcp-Session-Id", c.ids[1]}
		bob := []string{"X-User", "bob"}
		kinds = append(kinds, []refused{
			{name: "a rebound host", body: ping, host: "evil.example", want: `403 error(-32600,null)`},
			{name: "a rebound host, GET", method: "GET", host: "evil.example", want: `403 error(-32600,null)`},
			{name: "a rebound host, initialize", body: initialize, host: "evil.example", header: []string{"Mcp-Session-Id", ""}, want: `403 error(-32600,null)`},
			{name: "another's request", body: ping, header: bob, want: `404 error(-32001,null)`},
			{name: "another's notification", body: `{"jsonrpc":"2.0","method":"notifications/x"}`, header: bob, want: `404 error(-32001,null)`},
			{name: "another's answer", body: `{"jsonrpc":"2.0","id":"x","result":{}}`, header: bob, want: `404 error(-32001,null)`},
			{name: "another's GET", method: "GET", header: bob, want: `404 error(-32001,null)`},
			{name: "another's DELETE", method: "DELETE", header: bob, want: `404 error(-32001,null)`},
			{name: "initialize where it is full", body: initialize, header: []string{"Mcp-Session-Id", ""}, want: `503 error(-32000,"mine")`},
			{name: "initialize with another's session", body: initialize, header: bob, want: `503 error(-32000,"mine")`},
			{name: "initialize with a dead session", body: initialize, header: []string{"Mcp-Session-Id", "nobody"}, want: `503 error(-32000,"mine")`},
			{name: "too many requests", body: ping, header: full, want: `429 error(-32000,"mine")`},
			{name: "an id in flight", body: `{"jsonrpc":"2.0","id":"busy0","method":"x"}`, want: `400 error(-32600,"busy0")`},
			{name: "a long id", body: `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1023) + `","method":"x"}`, want: `400 error(-32600,"` + strings.Repeat("x", 1023) + `")`},
			{name: "an encoded body", body: "\x1f\x8b", header: []string{"Content-Encoding", "gzip"}, want: `415 error(-32600,null)`},
			{name: "a cursor", method: "GET", header: []string{"Last-Event-ID", "garbage"}, want: `400 error(-32600,null) unknown`},
			{name: "a cursor of no stream", method: "GET", header: []string{"Last-Event-ID", "AAAAAAAAAAAAAAAAAAAAAA.0"}, want: `400 error(-32600,null) unknown`},
			{name: "a GET without streams", method: "GET", header: []string{"Accept", "application/json"}, want: `406 error(-32600,null)`},
		}...)
		c.refuses(t, kinds, 200)
		c.lives(t)
	})
}

// So while the server shuts down.
func TestRefusalsWhileDrainingLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCrowd(t, rejoin.Config{})
		drained := make(chan error, 1)
		go func() { drained <- c.srv.Drain(t.Context()) }()
		c.refuses(t, []refused{
			{name: "initialize", body: initialize, header: []string{"Mcp-Session-Id", ""}, want: `503 error(-32000,"mine")`},
			{name: "a request", body: ping, want: `503 error(-32000,"mine")`},
			{name: "a GET", method: "GET", want: `503 error(-32000,null)`},
		}, 200)
		for range c.calls {
			c.next().returns("done")
		}
		require.NoError(t, <-drained)
		require.EqualValues(t, 3, c.srv.Stats().Sessions)
	})
}

// And where it is the app that refuses: its sessions make room at once.
func TestInitializesThatFailLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mood, ended := 0, 0
		store := newWatchedStore()
		app := &fake{}
		app.ended = func(error) { ended++ }
		app.open = func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) {
			switch mood {
			case 1:
				return nil, errors.New("no")
			case 2:
				return nil, rejoin.Errorf(-7, "not you")
			case 3:
				panic("open")
			}
			return app, nil
		}
		app.request = func(c *rejoin.Call) {
			switch mood {
			case 4:
				_ = c.Fail(rejoin.Errorf(-8, "no"))
			case 5:
				panic("request")
			case 6:
				_ = c.Handle().Session().Notify(c.Context(), "notifications/x", nil) // nobody will hear it
				c.Handle().Session().End(nil)
			default:
				accept(c)
			}
		}
		s := newServer(t, app, rejoin.Config{MaxSessions: 1, Store: store, Logger: quietLogger()})
		resting := len(goroutines())
		wants := []string{
			`500 error(-32603,"mine")`, `400 error(-7,"mine")`, `500 error(-32603,"mine")`, `200 error(-8,"mine")`, `200 error(-32603,"mine")`, `404 error(-32001,null)`,
		}
		var heap uint64
		for round := range 200 {
			if round == 1 {
				heap = heapAlloc()
			}
			for i, want := range wants {
				mood = i + 1
				w := serve(s, request(t, http.MethodPost, initialize))
				require.Equal(t, want+" ended", w.story(), mood)
				require.Empty(t, w.header.Get("Mcp-Session-Id"))
			}
		}
		require.Less(t, int64(heapAlloc())-int64(heap), int64(1<<20))
		stats := s.Stats()
		require.Zero(t, stats.Sessions+stats.Streams+stats.Connections+stats.Parked+stats.Opened+stats.StoredBytes)
		require.LessOrEqual(t, len(goroutines()), resting)
		require.Equal(t, 600, ended, "the app is told of those that it took")
		mood = 0
		_, no := opens(t, s)
		require.Empty(t, no, "there is room")
	})
}
