package door_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// refused is a kind of request that is refused, with the refusal.
type refused struct {
	name, method, body string
	header             []string
	host               string // the Host of a request to a loopback address; "": the request is not one to a loopback address
	want               string
}

// crowd is a server with as many sessions as allowed: three, one with a running call, a second with two parked calls.
type crowd struct {
	srv   *rejoin.Server
	store *kit.WatchedStore
	ids   []string
	calls []*kit.Response
	next  func() *kit.ManualTool
}

func newCrowd(t *testing.T, cfg rejoin.Config) *crowd {
	t.Helper()
	c := &crowd{store: kit.NewWatchedStore()}
	var app rejoin.App
	app, c.next = kit.ManualTools()
	cfg.Store, cfg.MaxSessions, cfg.MaxConcurrent, cfg.MaxBodyBytes, cfg.Logger = c.store, 5, 2, 4096, kit.QuietLogger()
	cfg.Principal = kit.ByUser
	c.srv = kit.NewServer(t, app, cfg)
	for range 3 {
		id, no := kit.Open(t, c.srv)
		require.Empty(t, no)
		require.Equal(t, http.StatusAccepted, kit.Notify(t, c.srv, id, "notifications/initialized"))
		c.ids = append(c.ids, id)
	}
	for _, user := range []string{"bob", "carol"} { // all places are taken then
		w := kit.Serve(c.srv, kit.Request(t, http.MethodPost, kit.Initialize, "X-User", user))
		require.Equal(t, "200 result ended", w.Summary())
		first := kit.InSession(t, w.Head.Get("Mcp-Session-Id"), `{"jsonrpc":"2.0","method":"notifications/x"}`, "X-User", user)
		require.Equal(t, "202 ended", kit.Serve(c.srv, first).Summary())
	}
	for i, n := range []int{1, 2} {
		for k := range n {
			c.calls = append(c.calls, kit.Serve(c.srv, kit.InSession(t, c.ids[i], fmt.Sprintf(`{"jsonrpc":"2.0","id":"busy%d","method":"x"}`, k))))
		}
	}
	return c
}

// refuses sends each kind of request that many times, and requires that it is refused and leaves nothing behind.
func (c *crowd) refuses(t *testing.T, kinds []refused, times int) {
	t.Helper()
	resting := len(kit.Goroutines())
	before := c.srv.Stats()
	logs, appends := c.store.Logs.Load(), c.store.Appends.Load()
	var heap uint64
	for round := range times {
		if round == 1 { // pools are filled by now
			heap = kit.HeapAlloc()
		}
		for _, kind := range kinds {
			method := kind.method
			if method == "" {
				method = http.MethodPost
			}
			r := kit.Request(t, method, kind.body, kind.header...)
			if _, set := r.Header["Mcp-Session-Id"]; !set {
				r.Header.Set("Mcp-Session-Id", c.ids[0])
			}
			if kind.host != "" {
				r = kit.ToLoopback(r)
				r.Host = kind.host
			}
			if summary := kit.Serve(c.srv, r).Summary(); summary != kind.want+" ended" {
				require.Equal(t, kind.want+" ended", summary, kind.name)
			}
		}
	}
	grown := int64(kit.HeapAlloc()) - int64(heap)
	require.Less(t, grown, int64(1<<20), "after %d refusals", (times-1)*len(kinds))
	after := c.srv.Stats()
	require.EqualValues(t, times*len(kinds), after.Refused-before.Refused)
	after.Refused = before.Refused
	require.Equal(t, before, after)
	require.Equal(t, logs, c.store.Logs.Load(), "logs of the store")
	require.Equal(t, appends, c.store.Appends.Load(), "events of the store")
	running := kit.Goroutines()
	require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
}

// lives requires that all three sessions still work.
func (c *crowd) lives(t *testing.T) {
	t.Helper()
	for range c.calls {
		c.next().Returns("done")
	}
	for _, w := range c.calls {
		require.Contains(t, w.Summary(), "result")
	}
	for _, id := range c.ids {
		require.Equal(t, "200 result ended", kit.Serve(c.srv, kit.InSession(t, id, kit.Ping)).Summary())
	}
}

// Invariant 7, many times over: a refused request leaves no session, stream, log, goroutine or memory behind, also in a server that is full, and
// does no harm to its sessions.
func TestRefusalsLeaveNothingHoweverMany(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := newCrowd(t, rejoin.Config{Eras: rejoin.EraLegacy})
		var kinds []refused
		for _, d := range kit.Refusals {
			kinds = append(kinds, refused{name: d.Name, method: d.Method, body: d.Body, header: d.Header, want: d.Want})
		}
		full := []string{"Mcp-Session-Id", c.ids[1]}
		bob := []string{"X-User", "bob"}
		kinds = append(kinds, []refused{
			{name: "a rebound host", body: kit.Ping, host: "evil.example", want: `403 error(-32600,null)`},
			{name: "a rebound host, GET", method: "GET", host: "evil.example", want: `403 error(-32600,null)`},
			{name: "a rebound host, initialize", body: kit.Initialize, host: "evil.example", header: []string{"Mcp-Session-Id", ""}, want: `403 error(-32600,null)`},
			{name: "another's request", body: kit.Ping, header: bob, want: `404 error(-32001,null)`},
			{name: "another's notification", body: `{"jsonrpc":"2.0","method":"notifications/x"}`, header: bob, want: `404 error(-32001,null)`},
			{name: "another's answer", body: `{"jsonrpc":"2.0","id":"x","result":{}}`, header: bob, want: `404 error(-32001,null)`},
			{name: "another's GET", method: "GET", header: bob, want: `404 error(-32001,null)`},
			{name: "another's DELETE", method: "DELETE", header: bob, want: `404 error(-32001,null)`},
			{name: "initialize where it is full", body: kit.Initialize, header: []string{"Mcp-Session-Id", ""}, want: `503 error(-32000,"mine")`},
			{name: "initialize with another's session", body: kit.Initialize, header: bob, want: `503 error(-32000,"mine")`},
			{name: "initialize with a dead session", body: kit.Initialize, header: []string{"Mcp-Session-Id", "nobody"}, want: `503 error(-32000,"mine")`},
			{name: "too many requests", body: kit.CallBody(`"mine"`, `{}`), header: full, want: `429 error(-32000,"mine")`},
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

// The same while the server shuts down.
func TestRefusalsWhileDrainingLeaveNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := newCrowd(t, rejoin.Config{})
		drained := make(chan error, 1)
		go func() { drained <- c.srv.Drain(t.Context()) }()
		c.refuses(t, []refused{
			{name: "initialize", body: kit.Initialize, header: []string{"Mcp-Session-Id", ""}, want: `503 error(-32000,"mine")`},
			{name: "a request", body: kit.Ping, want: `503 error(-32000,"mine")`},
			{name: "a GET", method: "GET", want: `503 error(-32000,null)`},
		}, 200)
		for range c.calls {
			c.next().Returns("done")
		}
		require.NoError(t, <-drained)
		require.EqualValues(t, 5, c.srv.Stats().Sessions)
	})
}

// The same if the app refuses: its sessions are free at once.
func TestInitializesThatFailLeaveNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		mood, ended := 0, 0
		store := kit.NewWatchedStore()
		app := &kit.Fake{}
		app.OnEnded = func(error) { ended++ }
		app.OnOpen = func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) {
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
		app.OnRequest = func(c *rejoin.Call) {
			switch mood {
			case 4:
				_ = c.Fail(rejoin.Errorf(-8, "no"))
			case 5:
				panic("request")
			case 6:
				_ = c.Handle().Session().Notify(c.Context(), "notifications/x", nil) // no client receives it
				c.Handle().Session().End(nil)
			default:
				kit.Accept(c)
			}
		}
		s := kit.NewServer(t, app, rejoin.Config{MaxSessions: 1, Store: store, Logger: kit.QuietLogger()})
		resting := len(kit.Goroutines())
		wants := []string{
			`500 error(-32603,"mine")`, `400 error(-7,"mine")`, `500 error(-32603,"mine")`, `200 error(-8,"mine")`, `200 error(-32603,"mine")`, `200 error(-32000,"mine") ended`,
		}
		var heap uint64
		for round := range 200 {
			if round == 1 {
				heap = kit.HeapAlloc()
			}
			for i, want := range wants {
				mood = i + 1
				w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize))
				require.Equal(t, want+" ended", w.Summary(), mood)
				require.Empty(t, w.Head.Get("Mcp-Session-Id"))
			}
		}
		require.Less(t, int64(kit.HeapAlloc())-int64(heap), int64(1<<20))
		stats := s.Stats()
		require.Zero(t, stats.Sessions+stats.Streams+stats.Connections+stats.Parked+stats.Opened+stats.StoredBytes)
		require.LessOrEqual(t, len(kit.Goroutines()), resting)
		require.Equal(t, 600, ended, "the app is told of those that it took")
		mood = 0
		_, no := kit.Open(t, s)
		require.Empty(t, no, "there is room")
	})
}
