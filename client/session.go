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

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// versions are what this package speaks, newest first.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26"}

const (
	// patience is how long a courtesy may take: a cancellation, the end of a session that did not come to be, what a refusal says.
	patience = 2 * time.Second
	// drainTime is how long the end of a stream that has said all is waited for.
	drainTime = 100 * time.Millisecond
)

// Session is a session with a server. Each belongs to one client: nothing is shared but Config.HTTP.
type Session struct {
	cfg    Config
	url    string
	http   *http.Client
	server json.RawMessage

	ctx    context.Context // ends with Close
	stop   context.CancelCauseFunc
	lastID atomic.Uint64
	work   sync.WaitGroup // what Close waits for
	asking chan struct{}  // a place for each question that is being answered

	mu        sync.Mutex
	id        string // a secret
	version   string
	questions map[string]*question // by the server's id
}

// Connect initializes a session: it asks for version 2025-11-25 and takes 2025-06-18 and 2025-03-26, too (specification, basic/lifecycle).
// ctx bounds only that. Where Connect fails after the server has begun a session, it takes up to two seconds more to end it there.
//
// *VersionError: the server speaks no version of this package, such as one that serves 2026-07-28 alone. *StatusError: it refused.
// *Error: it answered with an error. Else what Call.Wait returns.
func Connect(ctx context.Context, url string, cfg Config) (*Session, error) {
	s, err := newSession(url, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.initialize(ctx); err != nil {
		s.end(ErrClosed)
		if s.ID() != "" {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			_ = s.remove(ctx) // a courtesy
		}
		return nil, err
	}
	if s.cfg.OnNotification != nil {
		// What the server has to say comes on that stream from the first call on, and some servers drop it while there is none.
		ready := make(chan struct{})
		s.spawn(func() { s.listen(sync.OnceFunc(func() { close(ready) })) })
		patient := time.NewTimer(patience)
		defer patient.Stop()
		select {
		case <-ready:
		case <-patient.C:
		case <-ctx.Done():
		}
	}
	return s, nil
}

func newSession(address string, cfg Config) (*Session, error) {
	if err := cfg.resolve(); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("client: %q is no http or https URL", address)
	}
	s := &Session{cfg: cfg, url: address, http: sameOrigin(cfg.HTTP), questions: map[string]*question{}}
	s.asking = make(chan struct{}, maxAsked)
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s, nil
}

// ID is the session's id, a secret; "" where the server has no sessions.
func (s *Session) ID() string {
	id, _ := s.names()
	return id
}

// ProtocolVersion is what was negotiated.
func (s *Session) ProtocolVersion() string {
	_, version := s.names()
	return version
}

// Server is what the server said of itself: the result of initialize; nil after Resume.
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
	c.opens = true
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

// asVersionError finds out whether a refusal is about versions: then its data lists them, or the server knows no initialize.
func asVersionError(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	var data struct {
		Supported []string `json:"supported"`
	}
	if json.Unmarshal(e.Data, &data) != nil || len(data.Supported) == 0 {
		if e.Code == codeMethodNotFound {
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
// marshalled with encoding/json before Start returns; nil: none. The request is sent once, whatever happens to it.
//
// ErrClosed and ErrLeft, after Close and Leave; that of params.
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

// Do is Start and Wait. The messages of the call are dropped. Their errors.
func (s *Session) Do(ctx context.Context, method string, params, result any) error {
	c, err := s.Start(ctx, method, params)
	if err != nil {
		return err
	}
	return c.Wait(ctx, result)
}

// Notify sends a notification and waits until the server has it. params as with Start.
//
// ErrClosed, ErrLeft, *StatusError, ErrSessionGone, ErrRedirect; that of the connection.
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
	s.trace(TraceEvent{Kind: TracePost, Method: method})
	return s.tell(ctx, jsonrpc.AppendRequest(nil, nil, method, raw))
}

// Close ends all calls (with ErrClosed) and Listen loops, then the session on the server (DELETE; one that does not know it any more, or
// ends sessions by itself, is fine), and waits until nothing of the session runs: ctx bounds that. It may not be called from OnRequest or
// OnNotification, which it waits for. After Leave it does nothing.
//
// *StatusError and the like, of the DELETE; the cause of ctx.
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

// Leave ends all that the session does here (calls with ErrLeft), waits for that as Close does, and leaves the session alive on the
// server: for calls that go on elsewhere by their tokens.
func (s *Session) Leave() {
	s.end(ErrLeft)
	s.work.Wait()
}

// end ends all that runs and lets nothing new begin. The first cause counts.
func (s *Session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(cause)
}

// spawn runs f in a goroutine that Close waits for. false: the session has ended.
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

// names are what each request says of its session.
func (s *Session) names() (id, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.version
}

func (s *Session) setID(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = id
}

func (s *Session) nextID() string { return strconv.FormatUint(s.lastID.Add(1), 10) }

func marshal(params any) (json.RawMessage, error) {
	if params == nil {
		return nil, nil
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("client: params: %w", err)
	}
	if string(raw) == "null" {
		return nil, nil
	}
	return raw, nil
}
