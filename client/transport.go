package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	maxRefusalBytes = 64 << 10 // of the body of an answer that is no answer
	maxJSONDepth    = 1000
	maxFieldBytes   = 4096 // of an event id, and of a session id
	maxRedirects    = 10
)

// sendable reports whether a text that a server gave can be a field of a request: it may not choose where the field ends, nor make the
// request so large that nobody takes it.
func sendable(text string) bool {
	if len(text) > maxFieldBytes || !utf8.ValidString(text) {
		return false
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] == 0x7f {
			return false
		}
	}
	return true
}

// sameOrigin is a copy of c that follows redirects within an origin only, for net/http takes the session id along wherever they lead;
// and only those that keep the method, for a POST that becomes a GET says nothing any more.
func sameOrigin(c *http.Client) *http.Client {
	own := *c
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		from := via[0]
		if req.URL.Scheme != from.URL.Scheme || !strings.EqualFold(req.URL.Host, from.URL.Host) {
			return fmt.Errorf("%w: it leads to another origin, %s://%s", ErrRedirect, req.URL.Scheme, req.URL.Host)
		}
		if req.Method != from.Method {
			return fmt.Errorf("%w: it makes a GET of a %s; connect to the path %q", ErrRedirect, from.Method, req.URL.Path)
		}
		if c.CheckRedirect != nil {
			if err := c.CheckRedirect(req, via); err != nil && err != http.ErrUseLastResponse { //nolint:errorlint // as net/http does
				return fmt.Errorf("%w: %w", ErrRedirect, err)
			} else if err != nil {
				return err
			}
		}
		if len(via) >= maxRedirects {
			return fmt.Errorf("%w: there were %d already", ErrRedirect, len(via))
		}
		return nil
	}
	return &own
}

// answer is an HTTP answer whose head has come.
type answer struct {
	status int
	header http.Header
	kind   string // media type
	body   io.ReadCloser
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	idle   time.Duration // how long a Read may take; 0: for ever
}

// Read is the body's, watched for silence: while nobody reads, it is ours. Its error is the cause, where the request's context has ended.
func (a *answer) Read(p []byte) (int, error) {
	if a.idle > 0 {
		defer time.AfterFunc(a.idle, func() { a.cancel(errIdle) }).Stop()
	}
	n, err := a.body.Read(p)
	if err != nil && err != io.EOF && a.ctx.Err() != nil { //nolint:errorlint // a Read's end is never wrapped
		err = context.Cause(a.ctx)
	}
	return n, err
}

// drain reads what little may follow a response, so that the connection can be used again.
func (a *answer) drain() {
	defer time.AfterFunc(drainTime, func() { a.cancel(nil) }).Stop()
	_, _ = io.CopyN(io.Discard, a.body, maxRefusalBytes) // else it is closed
}

func (a *answer) close() {
	a.cancel(nil)
	_ = a.body.Close() // nothing more is wanted
}

// unsentError is of a request that never left.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// watched is a body that says whether anybody has read of it. net/http sends a POST a second time (by GetBody) only if it knows that
// nothing of it was written, or that the server redirects it or refused its HTTP/2 stream unread.
type watched struct {
	*bytes.Reader

	read *atomic.Bool
}

func (w watched) Read(p []byte) (int, error) {
	w.read.Store(true)
	return w.Reader.Read(p)
}

func (w watched) WriteTo(to io.Writer) (int64, error) {
	w.read.Store(true)
	return w.Reader.WriteTo(to)
}

func (watched) Close() error { return nil }

// do sends a request and waits for the head of its answer.
func (s *Session) do(ctx context.Context, method, accept string, body []byte, cursor string) (*answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	req, err := http.NewRequestWithContext(traced, method, s.url, nil)
	if err != nil {
		cancel(nil)
		return nil, unsentError{err}
	}
	if body != nil {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return watched{bytes.NewReader(body), &sent}, nil }
		req.Body = watched{bytes.NewReader(body), &sent}
	}
	h := req.Header
	h.Set("Accept-Encoding", "identity") // a compressed answer has no bound
	if accept != "" {
		h.Set("Accept", accept)
	}
	if body != nil {
		h.Set("Content-Type", "application/json")
	}
	id, version := s.names()
	if id != "" {
		h["Mcp-Session-Id"] = []string{id}
	}
	if version != "" {
		h["Mcp-Protocol-Version"] = []string{version}
	}
	if cursor != "" {
		h["Last-Event-Id"] = []string{cursor}
	}
	if d := s.cfg.HeaderTimeout; d > 0 {
		defer time.AfterFunc(d, func() { cancel(errNoHead) }).Stop()
	}
	res, err := s.http.Do(req) //nolint:bodyclose // answer.close does
	if err != nil {
		err = plain(ctx, err)
		cancel(nil)
		if !sent.Load() {
			err = unsentError{err}
		}
		return nil, err
	}
	contentType, _ := field(res.Header, "Content-Type")
	kind, _, _ := mime.ParseMediaType(contentType) // "" is none
	a := &answer{status: res.StatusCode, header: res.Header, kind: kind, body: res.Body, ctx: ctx, cancel: cancel}
	if c := res.Header.Get("Content-Encoding"); (c != "" || res.Uncompressed) && !strings.EqualFold(c, "identity") {
		a.close()
		if a.body = http.NoBody; a.status == http.StatusOK {
			return nil, fmt.Errorf("%w: Content-Encoding %q, which was not accepted", ErrProtocol, c)
		}
	}
	return a, nil
}

// field is the value of a field that has one. A proxy may have sent it twice, or joined two lines by a comma (RFC 9110, 5.3): equal values count
// as one. A single line that is something else stands for itself, since a server's own id may have a comma. False: there are lines that differ.
func field(h http.Header, name string) (string, bool) {
	lines := h.Values(name)
	if len(lines) == 0 {
		return "", true
	}
	value := lines[0]
	if first, rest, more := strings.Cut(value, ","); more && same(strings.TrimSpace(first), strings.Split(rest, ",")) {
		value = strings.TrimSpace(first)
	}
	for _, line := range lines[1:] {
		if line != lines[0] && !same(value, strings.Split(line, ",")) {
			return "", false
		}
	}
	return value, true
}

func same(value string, parts []string) bool {
	for _, part := range parts {
		if strings.TrimSpace(part) != value {
			return false
		}
	}
	return true
}

// plain takes the URL, which may be secret, off an error of net/http, and says why a context ended.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// refused makes an error of an answer that is a refusal. It takes no longer than patience.
func (s *Session) refused(a *answer) error {
	e := &StatusError{Status: a.status}
	defer time.AfterFunc(patience, func() { a.cancel(errIdle) }).Stop()
	raw, _ := io.ReadAll(io.LimitReader(a, maxRefusalBytes)) // what there is of it
	if m, err := jsonrpc.Parse(raw, maxJSONDepth); err == nil && m.Kind == jsonrpc.Failure {
		e.Err = decodeError(m.Err)
	}
	if a.status == http.StatusNotFound && s.ID() != "" {
		return fmt.Errorf("%w: %w", ErrSessionGone, e)
	}
	return e
}

func decodeError(raw []byte) *Error {
	e := new(Error)
	if json.Unmarshal(raw, e) != nil {
		return &Error{Code: -32603, Message: "malformed error"}
	}
	return e
}

// byteOrderMark may stand before JSON (RFC 8259, 8.1), as before a stream.
var byteOrderMark = []byte("\xef\xbb\xbf")

// readAll reads a body that is no stream.
func readAll(a *answer, limit int) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(a, int64(limit)+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > limit:
		return nil, fmt.Errorf("%w: JSON over Config.MaxEventBytes", ErrProtocol)
	}
	return bytes.TrimPrefix(raw, byteOrderMark), nil
}

// tell sends a notification or an answer.
func (s *Session) tell(ctx context.Context, body []byte) error {
	a, err := s.do(ctx, http.MethodPost, acceptBoth, body, "")
	if err != nil {
		return err
	}
	defer a.close()
	s.trace(TraceEvent{Kind: TraceHead, Status: a.status})
	if a.status < 200 || a.status > 299 {
		return s.refused(a)
	}
	return nil
}

const (
	acceptBoth   = "application/json, text/event-stream"
	acceptStream = "text/event-stream"
)
