//go:build nginx

package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// recipe returns a block of docs/replicas.md, the n-th in that language, with the addresses of a service in place of those on the page.
func recipe(t *testing.T, language string, n int, s *service) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/replicas.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllSubmatch(page, -1)
	require.Greater(t, len(found), n, "the page has the block")
	text := string(found[n][1])
	for i, r := range s.all {
		text = exchange(t, text, fmt.Sprintf("10.0.0.%d:8080", i+1), r.address)
	}
	return text
}

// exchange replaces what must be there.
func exchange(t *testing.T, text, from, to string) string {
	t.Helper()
	require.Contains(t, text, from)
	return strings.ReplaceAll(text, from, to)
}

// replica is a server of a cluster, with a router, a socket and a way to the engine of its own, as if it were a process of its own.
type replica struct {
	address string
	srv     *rejoin.Server
	web     *http.Server
	port    net.Listener
	closing atomic.Bool
	link    *clustertest.Faulty
	dead    bool
}

// service is a cluster of replicas.
type service struct {
	engine  *cluster.Memory
	app     rejoin.App
	all     []*replica
	started []*replica // those that were replaced, too
}

// startReplicas starts three replicas on ports of their own. They end with the test, after all clients that connect later.
func startReplicas(t *testing.T, app rejoin.App) *service {
	t.Helper()
	s := &service{engine: cluster.NewMemory(eventstore.MemoryConfig{}), app: app}
	t.Cleanup(func() {
		for _, r := range s.started {
			r.srv.Close()
			require.NoError(t, r.web.Close())
		}
	})
	for range 3 {
		s.all = append(s.all, s.start(t, "127.0.0.1:0"))
	}
	return s
}

func (s *service) start(t *testing.T, address string) *replica {
	t.Helper()
	port := listenAt(t, address)
	r := &replica{address: port.Addr().String(), port: port, link: clustertest.NewFaulty(s.engine, s.engine, nil)}
	r.link.SetInstant(true)
	var err error
	r.srv, err = rejoin.NewServer(s.app, rejoin.Config{
		Store:   r.link,
		Cluster: &rejoin.Cluster{Name: "reports", Self: "http://" + r.address, Lease: time.Second},
		Policy:  rejoin.Policy{Retry: 20 * time.Millisecond},
		Logger:  slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", r.srv)
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if r.srv.Draining() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r.web = &http.Server{ReadHeaderTimeout: patience, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	r.web.Handler = http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
		if r.closing.Load() {
			w.Header().Set("Connection", "close")
		}
		mux.ServeHTTP(w, rq)
	})
	go func() { _ = r.web.Serve(port) }() // until the port is closed
	s.started = append(s.started, r)
	return r
}

// listenAt listens at an address that another listener may just have left.
func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); ; {
		l, err := net.Listen("tcp", address)
		if err == nil {
			return l
		}
		select {
		case <-tick.C:
		case <-limit:
			require.NoError(t, err)
		}
	}
}

// replace ends a replica as the page says, and starts another one at its address.
func (s *service) replace(t *testing.T, i int, g *gate) {
	t.Helper()
	r := s.all[i]
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	require.NoError(t, r.srv.Drain(ctx))
	if g.settled != nil {
		g.settled(i)
	}
	require.NoError(t, r.port.Close())
	r.closing.Store(true)
	<-time.After(200 * time.Millisecond) // the recipe waits for a time, too: nothing tells when a balancer has used its connections
	require.NoError(t, r.web.Shutdown(ctx))
	r.srv.Close()
	s.all[i] = s.start(t, r.address)
}

// kill ends a replica for all others: it has no connection any more, takes none, and does not reach the engine.
func (r *replica) kill(t *testing.T) {
	t.Helper()
	r.link.SetLink(clustertest.Refused)
	require.NoError(t, r.web.Close())
	r.dead = true
}

// inParts is a tool whose client is let go after each part, and goes on when it has come back.
func inParts(ctx context.Context, say func(string) error) (string, error) {
	h := rejoin.HandleFromContext(ctx)
	for i := range 3 {
		if err := say(fmt.Sprint("part ", i+1)); err != nil {
			return "", err
		}
		if err := h.CloseStream(0); err != nil {
			return "", err
		}
		if err := h.WaitConnected(ctx); err != nil {
			return "", err
		}
	}
	return "done", nil
}

// testDrain drains and replaces some replicas while clients call: no call fails, and no client sees 404 or 5xx.
func testDrain(t *testing.T, front func(*testing.T, *service) *gate, replicas int) {
	s := startReplicas(t, own(inParts))
	g := front(t, s)
	c := join(t, g)
	c.wait(t, 2)
	for i := range replicas {
		s.replace(t, i, g)
		c.wait(t, 2)
	}
	require.Empty(t, c.leave())
	require.Zero(t, c.gate.count(func(status int) bool { return status >= 500 || status == http.StatusNotFound }), "404 or 5xx")
}

// testKill kills a replica while clients call: calls that ran there may be lost, and no session is. It returns how many requests were forwarded once
// all sessions had moved: of any sessions, and of those that had been adopted.
func testKill(t *testing.T, front func(*testing.T, *service) *gate) (ofAll, ofAdopted int64) {
	s := startReplicas(t, own(inParts))
	c := join(t, front(t, s))
	c.wait(t, 2)
	moving := map[rejoin.SessionRef]bool{}
	for session := range s.all[1].srv.Sessions() {
		moving[session.Ref] = true
	}
	require.NotEmpty(t, moving)
	s.all[1].kill(t)
	c.wait(t, 3)
	before, adoptedBefore := s.hops(t, moving)
	c.wait(t, 3)
	after, adoptedAfter := s.hops(t, moving)
	for _, err := range c.leave() {
		require.True(t, mayBeLost(err), "%v", err)
	}
	require.Zero(t, c.gate.count(func(status int) bool { return status == http.StatusNotFound }), "404")
	return after - before, adoptedAfter - adoptedBefore
}

// hops counts the requests that living replicas got from others: those of any sessions, and those of some, all of which must be there.
func (s *service) hops(t *testing.T, some map[rejoin.SessionRef]bool) (ofAll, ofSome int64) {
	t.Helper()
	found := 0
	for _, r := range s.all {
		if r.dead {
			continue
		}
		for session := range r.srv.Sessions() {
			ofAll += session.Forwarded
			if some[session.Ref] {
				ofSome += session.Forwarded
				found++
			}
		}
	}
	require.Equal(t, len(some), found, "the sessions have moved")
	return ofAll, ofSome
}

// testOnce requires that a POST to a server that dies without an answer is sent once, on a new connection and on one that was used before, and that a
// GET is sent to another server.
func testOnce(t *testing.T, front func(*testing.T, *service) *gate) {
	var posts, gets atomic.Int64
	s := &service{}
	for range 3 {
		address := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost && r.ContentLength > 0, r.Method == http.MethodGet && r.URL.Path == "/mcp" && gets.Add(1) == 1:
				posts.Add(r.ContentLength)
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(http.StatusOK)
			}
		}))
		s.all = append(s.all, &replica{address: address})
	}
	g := front(t, s)
	for i := range 6 {
		if i == 3 { // keep connections
			for range 3 {
				require.Equal(t, http.StatusOK, post(t, g, "", "").StatusCode)
			}
		}
		answer, err := g.client().Do(message(t, g, http.MethodPost, "", "1"))
		if err == nil { // HAProxy ends the connection instead
			require.Equal(t, http.StatusBadGateway, answer.StatusCode)
			require.NoError(t, answer.Body.Close())
		}
		require.Equal(t, int64(i+1), posts.Load())
	}
	require.Equal(t, http.StatusOK, do(t, g, message(t, g, http.MethodGet, "", "")).StatusCode)
	require.Equal(t, int64(2), gets.Load())
}

// requireAtOnce requires that each event arrives before the next one is sent, and soon, whichever replica the request goes to.
func requireAtOnce(t *testing.T, front func(*testing.T, *service) *gate) {
	t.Helper()
	app, seen := stepByStep()
	s := startReplicas(t, app)
	g := front(t, s)
	session := open(t, g)
	began := time.Now()
	for range s.all {
		requireStepByStep(t, post(t, g, session, request), seen)
	}
	require.Less(t, time.Since(began), time.Duration(len(s.all)*steps)*100*time.Millisecond, "the proxy waits for more before it sends an event on")
}
