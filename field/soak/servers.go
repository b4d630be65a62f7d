package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
	"github.com/rejoin-mcp/rejoin/field/internal/errlog"
)

// site is one endpoint.
type site struct {
	Router string `json:"router"`
	App    string `json:"app"`
	Addr   string `json:"addr"`
	Path   string `json:"path"`
}

// gauges are the gauges of all servers together, and some counters.
type gauges struct {
	Sessions       int64 `json:"sessions"`
	Streams        int64 `json:"streams"`
	Connections    int64 `json:"connections"`
	Parked         int64 `json:"parked"`
	StoredBytes    int64 `json:"storedBytes"`
	Tasks          int64 `json:"tasks"`
	TasksRunning   int64 `json:"tasksRunning"`
	TasksMade      int64 `json:"tasksMade"`
	Opened         int64 `json:"opened"`
	Closed         int64 `json:"closed"`
	Resumed        int64 `json:"resumed"`
	TakenOver      int64 `json:"takenOver"`
	Abandoned      int64 `json:"abandoned"`
	Evicted        int64 `json:"evicted"`
	Expired        int64 `json:"expired"`
	StoreFailed    int64 `json:"storeFailed"`
	Refused        int64 `json:"refused"`
	WritesTimedOut int64 `json:"writesTimedOut"`
	Full           int64 `json:"full"`
	Errors         int64 `json:"errors"`
}

// zero reports whether nothing is left.
func (g gauges) zero() bool {
	return g.Sessions == 0 && g.Streams == 0 && g.Connections == 0 && g.Parked == 0 && g.StoredBytes == 0 && g.Tasks == 0
}

// serverProcess is the process with the servers.
type serverProcess struct {
	servers []*rejoin.Server
	sites   []site
	errors  atomic.Int64
}

func (h *serverProcess) reply(q question) (a answer, err error) {
	switch q.Do {
	case "serve":
		if err := needFiles(uint64(q.Job.Clients)*5 + 200); err != nil { //nolint:gosec // it is positive
			return a, err
		}
		a.Sites, err = h.startServers(q.Job)
		growGoroutines(q.Job.goroutines())
	case "sample", "collect":
		a.Sample, err = sampleSelf(q.Do == "collect")
		a.Gauges = h.gauges()
	case "goroutines":
		err = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	case "heap":
		err = profile(q.File)
	default:
		err = errors.New("no such question")
	}
	return a, err
}

func apps() map[string]rejoin.App {
	return map[string]rejoin.App{"own": ownApp(), "go-sdk": gosdk.New(goSDKServer()), "mcp-go": mcpgo.New(mcpGoServer())}
}

// startServers starts a server for each router with each kind of app, and returns their addresses.
func (h *serverProcess) startServers(j job) ([]site, error) {
	gin.SetMode(gin.ReleaseMode)
	for _, router := range []string{"net/http", "chi", "echo", "gin"} {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		mount, handler := newRouter(router)
		for name, app := range apps() {
			srv, err := rejoin.NewServer(app, rejoin.Config{
				Policy: rejoin.Policy{
					Retry: 200 * time.Millisecond, RetryMax: 2 * time.Second, Retain: j.Retain, AbandonAfter: j.Abandon,
				},
				PolicyFor:      policyFor,
				Eras:           rejoin.EraBoth,
				Tasks:          rejoin.Tasks{TTL: j.Retain, PollInterval: pollInterval},
				Principal:      func(r *http.Request) string { return r.Header.Get("Soak-User") },
				SessionIdleTTL: j.IdleTTL, KeepAlive: 5 * time.Second,
				Logger: slog.New(errlog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}), &h.errors)),
			})
			if err != nil {
				return nil, err
			}
			path := "/" + name
			mount(path, srv)
			h.servers = append(h.servers, srv)
			h.sites = append(h.sites, site{router, name, l.Addr().String(), path})
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 30 * time.Second}
		go func() { _ = server.Serve(l) }() // until the process ends
	}
	return h.sites, nil
}

// pollInterval is what clients are told to wait between two polls of a task.
const pollInterval = 200 * time.Millisecond

// policyFor lets a client choose CloseAfter, TaskAfter and a stream for its call, by header fields.
func policyFor(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
	if d, err := time.ParseDuration(r.HTTP.Header.Get("Soak-Close-After")); err == nil {
		p.CloseAfter = d
	}
	if d, err := time.ParseDuration(r.HTTP.Header.Get("Soak-Task-After")); err == nil {
		p.TaskAfter = d
	}
	if r.HTTP.Header.Get("Soak-Stream") != "" {
		p.Mode = rejoin.ModeSSE
	}
	return p
}

func newRouter(name string) (mount func(string, *rejoin.Server), handler http.Handler) {
	switch name {
	case "chi":
		r := chi.NewRouter()
		return func(path string, s *rejoin.Server) { chiadapter.Register(r, path, s) }, r
	case "echo":
		e := echo.New()
		return func(path string, s *rejoin.Server) { echoadapter.Register(e, path, s) }, e
	case "gin":
		g := gin.New()
		return func(path string, s *rejoin.Server) { ginadapter.Register(g, path, s) }, g
	default:
		mux := http.NewServeMux()
		return func(path string, s *rejoin.Server) { stdadapter.Register(mux, path, s) }, mux
	}
}

func (h *serverProcess) gauges() (g gauges) {
	for _, srv := range h.servers {
		s := srv.Stats()
		g.Sessions += s.Sessions
		g.Streams += s.Streams
		g.Connections += s.Connections
		g.Parked += s.Parked
		g.StoredBytes += s.StoredBytes
		g.Tasks += s.Tasks
		g.TasksRunning += s.TasksRunning
		g.TasksMade += s.TasksMade
		g.Opened += s.Opened
		g.Closed += s.Closed
		g.Resumed += s.Resumed
		g.TakenOver += s.TakenOver
		g.Abandoned += s.Abandoned
		g.Evicted += s.Evicted
		g.Expired += s.Expired
		g.StoreFailed += s.StoreFailed
		g.Refused += s.Refused
		g.WritesTimedOut += s.WritesTimedOut
		g.Full += s.Full
	}
	g.Errors = h.errors.Load()
	return g
}
