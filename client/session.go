package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// versions are what this package speaks, newest first.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26"}

const (
	// shortTimeout bounds what the session can do without: a cancellation, the DELETE after a Connect that failed, the body of a refusal,
	// and the wait of Connect for the standalone stream.
	shortTimeout = 2 * time.Second
	// drainTime is how long a stream may take to end after its response.
	drainTime = 100 * time.Millisecond
)

// Session is a session with a server. Sessions share nothing but Config.HTTP.
type Session struct {
	cfg    Config
	url    string
	http   *http.Client
	server json.RawMessage

	ctx    context.Context // ends with Close
	stop   context.CancelCauseFunc
	lastID atomic.Uint64
	work   sync.WaitGroup // what Close waits for
	asking chan struct{}  // has an element for each question that is being answered
	// capabilities are what the client declares in the modern era, as JSON.
	capabilities func() (json.RawMessage, error)

	mu        sync.Mutex
	id        string // a secret
	version   string
	modern    bool                        // the version is one of the modern era; constant after Connect
	questions map[string]*question        // by the server's id
	repeated  map[string][]argumentHeader // by the name of a tool
}

// Connect begins a session in the era of cfg. In the legacy era it initializes: it asks for version 2025-11-25, and also accepts 2025-06-18 and
// 2025-03-26 (specification, basic/lifecycle). In the modern era it asks the server what it has (server/discover). ctx bounds Connect, not the
// session. If Connect fails after the server has opened a session, it takes up to two seconds more to end the session there.
//
// Errors: all faults of url and cfg, joined. *VersionError: the server has no version in common with this package, or none of the era that cfg
// names. *StatusError: it refused. *Error: it answered with an error. All others are those of Call.Wait.
func Connect(ctx context.Context, url string, cfg Config) (*Session, error) {
	s, err := newSession(url, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		s.end(ErrClosed)
		if s.ID() != "" {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortTimeout)
			defer cancel()
			_ = s.remove(ctx) // err is what the caller has to know
		}
		return nil, err
	}
	if s.cfg.OnNotification != nil {
		// From the first call on there may be notifications for that stream, and some servers drop them while it is not open.
		ready := make(chan struct{})
		s.spawn(func() { s.listen(sync.OnceFunc(func() { close(ready) })) })
		timer := time.NewTimer(shortTimeout)
		defer timer.Stop()
		select {
		case <-ready:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return s, nil
}

// newSession returns all faults of its arguments at once.
func newSession(address string, cfg Config) (*Session, error) {
	faults := cfg.resolve()
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		faults = append(faults, fmt.Errorf("%q is not an http or https URL", address))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("client: %w", errors.Join(faults...))
	}
	s := &Session{cfg: cfg, url: address, http: sameOrigin(cfg.HTTP), questions: map[string]*question{}}
	s.asking = make(chan struct{}, maxAsked)
	s.capabilities = sync.OnceValues(s.modernCapabilities)
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s, nil
}

// ID is the session's id, a secret. It is "" if the server has no sessions, as in the modern era.
func (s *Session) ID() string {
	id, _ := s.identity()
	return id
}

// Version is the negotiated protocol version.
func (s *Session) Version() string {
	_, version := s.identity()
	return version
}

// Server is the result of initialize or of server/discover, in which the server describes itself.
func (s *Session) Server() json.RawMessage { return s.server }

func (s *Session) initialize(ctx context.Context) error {
	capabilities := s.cfg.Capabilities
	if capabilities == nil {
		capabilities = map[string]any{}
	}
	c, err := s.newCall(ctx, "initialize", map[string]any{
		"protocolVersion": versions[0],
		"capabilities":    capabilities,
		"clientInfo":      map[string]any{"name": s.cfg.Name, "version": s.cfg.Version},
	})
	if err != nil {
		return err
	}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	c.initialize = true
	c.run()
	if err := c.Wait(ctx, &s.server); err != nil {
		return asVersionError(err)
	}
	if err := json.Unmarshal(s.server, &result); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	switch {
	case result.ProtocolVersion == "":
		return fmt.Errorf("%w: initialize without a protocolVersion", ErrProtocol)
	case !slices.Contains(versions, result.ProtocolVersion):
		return &VersionError{Offered: []string{result.ProtocolVersion}}
	}
	s.mu.Lock()
	s.version = result.ProtocolVersion
	s.mu.Unlock()
	return s.Notify(ctx, "notifications/initialized", nil)
}

// asVersionError makes a *VersionError of err if the server refused the version: the data of its error lists versions, none of them ours, or
// it does not know the method initialize. Otherwise it returns err.
func asVersionError(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	var data struct {
		Supported []string `json:"supported"`
	}
	if json.Unmarshal(e.Data, &data) != nil || len(data.Supported) == 0 {
		if e.Code == rejoin.CodeMethodNotFound {
			return &VersionError{Err: err}
		}
		return err
	}
	if slices.ContainsFunc(data.Supported, func(v string) bool { return slices.Contains(versions, v) }) {
		return err
	}
	return &VersionError{Offered: data.Supported, Err: err}
}

// Start sends a request and returns at once. ctx is the call's: when it ends, the call is cancelled on the server, too. params are
// marshalled with encoding/json before Start returns, but a json.RawMessage, a pointer to one, or a []byte is sent as it is; nil: none.
// The request is sent once, whatever happens to it.
//
// In the modern era params must be an object. What each request says of the client is added to its _meta, and io.modelcontextprotocol/logLevel
// debug, unless it has one: servers send no log messages otherwise. If the server answers with questions, the request is sent again with the
// answers.
//
// Errors: that of params; ErrClosed after Close, ErrLeft after Leave.
func (s *Session) Start(ctx context.Context, method string, params any) (*Call, error) {
	c, err := s.newCall(ctx, method, params)
	if err != nil {
		return nil, err
	}
	if !s.spawn(c.run) {
		c.stop(nil)
		return nil, context.Cause(s.ctx)
	}
	return c, nil
}

// Do starts a call and waits for it. It drops the call's messages, and returns the errors of Start and Wait.
func (s *Session) Do(ctx context.Context, method string, params, result any) error {
	c, err := s.Start(ctx, method, params)
	if err != nil {
		return err
	}
	return c.Wait(ctx, result)
}

// Notify sends a notification and waits until the server has accepted it. params are as with Start.
//
// Errors: that of params; ErrClosed, ErrLeft, *StatusError, ErrSessionGone, ErrRedirect; that of the connection.
func (s *Session) Notify(ctx context.Context, method string, params any) error {
	raw, err := marshal(params)
	if err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.ctx, func() { stop(context.Cause(s.ctx)) })()
	if s.isModern() {
		return s.notifyModern(ctx, method, raw)
	}
	s.trace(TraceEvent{Kind: TracePost, Method: method})
	return s.send(ctx, jsonrpc.AppendRequest(nil, nil, method, raw))
}

// Close ends all calls (with ErrClosed) and Listen loops, then ends the session on the server (DELETE; in the modern era it cancels the calls,
// since there is no session), and waits until no goroutine of the session runs. ctx bounds this. It is not an error if the server no longer
// knows the session, or lets no client end it. Do not call Close from OnRequest or OnNotification: it waits for them. After Leave it does
// nothing.
//
// Errors: those of the DELETE, such as *StatusError; the cause of ctx.
func (s *Session) Close(ctx context.Context) error {
	s.end(ErrClosed)
	if errors.Is(context.Cause(s.ctx), ErrLeft) {
		return nil
	}
	var err error
	if s.ID() != "" {
		err = s.remove(ctx)
	}
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		err = cmp.Or(err, context.Cause(ctx))
	}
	return err
}

// Leave ends all calls (with ErrLeft) and Listen loops, and waits until no goroutine of the session runs. The session stays alive on the
// server, so that the calls can be resumed elsewhere by their tokens. As with Close, do not call it from OnRequest or OnNotification.
func (s *Session) Leave() {
	s.end(ErrLeft)
	s.work.Wait()
}

// end ends all that runs in the session, and lets nothing new begin. Only the first cause counts.
func (s *Session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(cause)
}

// spawn runs f in a goroutine that Close waits for. It returns false if the session has ended.
func (s *Session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.work.Go(f)
	return true
}

// remove ends the session on the server.
func (s *Session) remove(ctx context.Context) error {
	s.trace(TraceEvent{Kind: TraceDelete})
	a, err := s.do(ctx, http.MethodDelete, "", nil, "")
	if err != nil {
		return err
	}
	defer a.close()
	s.trace(TraceEvent{Kind: TraceHead, Status: a.status})
	switch {
	case a.status >= 200 && a.status <= 299, a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed:
		return nil
	}
	return s.refused(a)
}

// identity is what each request tells of its session.
func (s *Session) identity() (id, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.version
}

func (s *Session) isModern() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.modern
}

func (s *Session) setID(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = id
}

func (s *Session) nextID() string { return strconv.FormatUint(s.lastID.Add(1), 10) }
