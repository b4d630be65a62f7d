//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/field/internal/errlog"
)

// started is set in the environment of children: a plan.
const started = "REJOIN_CHAOS_SERVE"

// plan is what a child is told.
type plan struct {
	Addr   string `json:"addr"` // where it listens
	Self   string `json:"self"`
	Engine string `json:"engine"` // the address of its way to the engine
	Oracle string `json:"oracle"` // its file
	Timing timing `json:"timing"`
}

// timing are the durations that servers, clients and the judge have to agree on.
type timing struct {
	Lease   time.Duration `json:"lease"`
	Retry   time.Duration `json:"retry"`
	IdleTTL time.Duration `json:"idleTTL"`
	Grace   time.Duration `json:"grace"`  // of a planned end
	Settle  time.Duration `json:"settle"` // from SIGTERM to the closed port, at least
	Silence time.Duration `json:"silence"`
}

// bound is how long a call that can be resumed may take to end after its owner has died.
func (t timing) bound() time.Duration { return 2*t.Lease + t.Retry + 5*time.Second }

// holdings are what the servers of a process have.
type holdings struct {
	Sessions    int64 `json:"sessions"`
	Streams     int64 `json:"streams"`
	Connections int64 `json:"connections"`
	Goroutines  int64 `json:"goroutines"`
	Adopted     int64 `json:"adopted"`
	Moved       int64 `json:"moved"`
	Forwarded   int64 `json:"forwarded"`
	Errors      int64 `json:"errors"`
}

// childMain must be the first call of main, and of TestMain in tests.
func childMain() {
	text := os.Getenv(started)
	if text == "" {
		return
	}
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = serve(&p, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: a process:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// host is a process with one server of each kind of app.
type host struct {
	servers []*rejoin.Server
	errors  atomic.Int64
	closing atomic.Bool
	out     *json.Encoder
	saying  sync.Mutex
	heard   chan struct{} // closed when the parent has heard that the port is to be closed
}

// line is what a process tells its parent.
type line struct {
	Closes bool     `json:"closes"` // it is about to close its port, and waits for "closed"
	Holds  holdings `json:"holds"`
}

// serve runs until SIGTERM, or until the input ends. Each line of input is answered by a line with the holdings.
func serve(p *plan, in io.Reader, out io.Writer) error {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	o, err := openOracle(p.Oracle)
	if err != nil {
		return err
	}
	store, err := openEngine(p.Engine)
	for limit := time.Now().Add(startLimit / 2); err != nil; store, err = openEngine(p.Engine) { // as something that starts processes again and again
		if time.Now().After(limit) {
			return err
		}
		_ = pause(context.Background(), 200*time.Millisecond) // nothing ends it
	}
	h := &host{out: json.NewEncoder(out), heard: make(chan struct{})}
	mux := http.NewServeMux()
	logger := slog.New(errlog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}), &h.errors))
	for _, name := range appNames {
		srv, err := rejoin.NewServer(o.newApp(name), rejoin.Config{
			Store:   &spy{store, o},
			Cluster: &rejoin.Cluster{Name: name, Self: p.Self, Lease: p.Timing.Lease},
			Policy: rejoin.Policy{
				CloseAfter: time.Second, Retry: p.Timing.Retry, RetryMax: time.Second, Retain: 30 * time.Second, AbandonAfter: time.Minute,
			},
			KeepAlive: p.Timing.Silence / 3, SessionIdleTTL: p.Timing.IdleTTL, StoreTimeout: p.Timing.Lease / 2, Logger: logger.With("app", name),
			Eras: rejoin.EraLegacy,
		})
		if err != nil {
			return err
		}
		h.servers = append(h.servers, srv)
		stdadapter.Register(mux, "/"+name, srv)
	}
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if h.draining() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	web := &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	web.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.closing.Load() {
			w.Header().Set("Connection", "close")
		}
		mux.ServeHTTP(w, r)
	})
	port, err := new(net.ListenConfig).Listen(context.Background(), "tcp", p.Addr)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(port) }()
	o.write(entry{Do: processBegan})
	go h.answer(in)
	select {
	case err := <-served:
		return err
	case <-terminated:
	}
	err = h.end(p.Timing, web, port)
	o.write(entry{Do: processEnds})
	return err
}

// say tells the parent something. A process whose parent has ended ends, too.
func (h *host) say(l line) {
	h.saying.Lock()
	err := h.out.Encode(&l)
	h.saying.Unlock()
	if err != nil {
		os.Exit(1)
	}
}

// answer answers lines of input, and ends the process with the input.
func (h *host) answer(in io.Reader) {
	h.say(line{Holds: h.holdings()}) // the first one says that it serves
	for questions := json.NewDecoder(in); ; {
		var question string
		switch {
		case questions.Decode(&question) != nil:
			os.Exit(1)
		case question == "closed":
			close(h.heard)
		default:
			h.say(line{Holds: h.holdings()})
		}
	}
}

func (h *host) holdings() (out holdings) {
	for _, srv := range h.servers {
		s := srv.Stats()
		out.Sessions += s.Sessions
		out.Streams += s.Streams
		out.Connections += s.Connections
		out.Adopted += s.Adopted
		out.Moved += s.Moved
		out.Forwarded += s.Forwarded
	}
	out.Goroutines, out.Errors = int64(runtime.NumGoroutine()), h.errors.Load()
	return out
}

func (h *host) draining() bool {
	for _, srv := range h.servers {
		if srv.Draining() {
			return true
		}
	}
	return false
}

// end is the end that docs/replicas.md recommends.
func (h *host) end(t timing, web *http.Server, port net.Listener) error {
	settled := time.After(t.Settle)
	drain, cancel := context.WithTimeout(context.Background(), t.Grace)
	defer cancel()
	drained := make(chan error, len(h.servers))
	for _, srv := range h.servers {
		go func() { drained <- srv.Drain(drain) }()
	}
	var err error
	for range h.servers {
		err = errors.Join(err, <-drained)
	}
	<-settled
	h.say(line{Closes: true})
	<-h.heard // the way of the other processes, which has a port of its own, is closed
	_ = port.Close()
	h.closing.Store(true)
	<-time.After(time.Second)
	shutdown, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = errors.Join(err, web.Shutdown(shutdown))
	for _, srv := range h.servers {
		srv.Close()
	}
	return err
}
