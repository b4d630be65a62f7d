//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"
)

// sprayer is a load balancer without stickiness and without keep-alive: what stands between the clients and the processes. It sends each
// request to the next process, and passes over one that does not take the connection. It tries a GET once more that got no answer, as nginx
// and HAProxy do with the recipes of docs/replicas.md, and nothing else: that may have arrived.
type sprayer struct {
	addr string
	web  *http.Server
	taps *taps

	mu       sync.Mutex
	next     int
	backends []backend
	trouble  []trouble
	ended    map[string]time.Time // sessions, by when their client has sent DELETE
	seen     map[string]time.Time // sessions, by when an answer other than an error was last seen
}

// backend is a process behind the sprayer.
type backend struct{ name, addr string }

// trouble is an answer that a client may have to act on.
type trouble struct {
	At      time.Time
	Began   time.Time
	Status  int
	Method  string
	Session string // "": none
	Fronts  []string
	Body    string
	Ended   bool // the client had sent DELETE
	Idle    time.Duration
}

func newSprayer() (*sprayer, error) {
	port, err := listenLow()
	if err != nil {
		return nil, err
	}
	s := &sprayer{
		addr: port.Addr().String(), taps: newTaps(), ended: map[string]time.Time{}, seen: map[string]time.Time{},
	}
	proxy := &httputil.ReverseProxy{
		Transport: s,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "cluster"})
			r.Out.Host = r.In.Host
		},
		ModifyResponse: s.look,
		FlushInterval:  -1,
		ErrorHandler:   s.failed,
		ErrorLog:       log.New(io.Discard, "", 0), // it reports clients that leave
	}
	s.web = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(proxy, w, r) }),
		ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.web.Serve(port) }() // until close
	return s, nil
}

func (s *sprayer) url(path string) string { return "http://" + s.addr + path }

func (s *sprayer) close() { _ = s.web.Close() }

// set replaces the processes.
func (s *sprayer) set(all []backend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backends = slices.Clone(all)
}

// turn returns the processes in the order in which they are tried.
func (s *sprayer) turn() []backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.backends) == 0 {
		return nil
	}
	s.next++
	n := s.next % len(s.backends)
	return append(slices.Clone(s.backends[n:]), s.backends[:n]...)
}

// passage is what is known of a request on its way. It is written before the answer is passed on.
type passage struct {
	began   time.Time
	body    []byte
	fronts  []string // the processes that took it
	session string
	call    *tap // nil: it is not about a call
}

type passageKey struct{}

func passageOf(ctx context.Context) *passage {
	p, _ := ctx.Value(passageKey{}).(*passage) // serve has put it there
	return p
}

// frontHeader names the process that the sprayer has chosen, for findings.
const frontHeader = "Chaos-Front"

// serve reads the body first: net/http closes it at the first byte of the response, and httputil.ReverseProxy may not have looked for its
// end by then.
func (s *sprayer) serve(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	p := &passage{began: time.Now(), body: body, session: r.Header.Get("Mcp-Session-Id")}
	if r.Method == http.MethodDelete {
		s.mu.Lock()
		s.ended[p.session] = time.Now()
		s.mu.Unlock()
	}
	p.call = s.taps.about(r, body)
	proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passageKey{}, p)))
}

var errNoProcess = errors.New("no process takes the connection")

// RoundTrip implements http.RoundTripper. Each request has a connection of its own.
func (s *sprayer) RoundTrip(r *http.Request) (*http.Response, error) {
	p := passageOf(r.Context())
	err := errNoProcess
	tries := 0
	for _, b := range s.turn() {
		c, dialed := new(net.Dialer).DialContext(r.Context(), "tcp", b.addr)
		if dialed != nil {
			err = errors.Join(err, dialed)
			continue
		}
		p.fronts = append(p.fronts, b.name)
		p.call.through(b.name)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(p.body)), int64(len(p.body))
		var answer *http.Response
		once := &http.Transport{DisableKeepAlives: true, DisableCompression: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
		if answer, err = once.RoundTrip(r); err == nil {
			return answer, nil
		}
		_ = c.Close()
		if tries++; r.Method != http.MethodGet || r.Context().Err() != nil || tries == 2 {
			break
		}
	}
	return nil, err
}

// failed answers a request that has no answer.
func (s *sprayer) failed(w http.ResponseWriter, r *http.Request, err error) {
	p := passageOf(r.Context())
	if r.Context().Err() == nil { // else the client has left
		s.note(r.Method, p, http.StatusBadGateway, err.Error())
	}
	w.WriteHeader(http.StatusBadGateway)
}

// look looks at an answer before it is passed on.
func (s *sprayer) look(answer *http.Response) error {
	p := passageOf(answer.Request.Context())
	status, method := answer.StatusCode, answer.Request.Method
	switch {
	case status == http.StatusNotFound, status >= http.StatusInternalServerError, status == http.StatusBadRequest && method == http.MethodGet:
		body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		if err != nil {
			return err
		}
		answer.Body = io.NopCloser(bytes.NewReader(body))
		s.note(method, p, status, string(body))
	case status < http.StatusBadRequest:
		if id := answer.Header.Get("Mcp-Session-Id"); id != "" {
			p.session = id
		}
		s.mu.Lock()
		s.seen[p.session] = time.Now()
		s.mu.Unlock()
	}
	p.call.began(status)
	answer.Header.Set(frontHeader, p.fronts[len(p.fronts)-1])
	answer.Body = p.call.tapped(answer)
	return nil
}

func (s *sprayer) note(method string, p *passage, status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	t := trouble{
		At: now, Began: p.began, Status: status, Method: method, Session: p.session, Fronts: p.fronts, Body: body[:min(len(body), 400)],
	}
	_, t.Ended = s.ended[p.session]
	if last, ok := s.seen[p.session]; ok {
		t.Idle = now.Sub(last)
	}
	s.trouble = append(s.trouble, t)
}

// troubles are the answers so far that a client may have to act on.
func (s *sprayer) troubles() []trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.trouble)
}

// endedSessions are the sessions that their clients have ended.
func (s *sprayer) endedSessions() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ended)
}
