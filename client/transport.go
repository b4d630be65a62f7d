package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	maxRefusalBytes = 64 << 10 // of the body of a refusal
	maxJSONDepth    = 1000
	maxFieldBytes   = 4096 // of an event id, and of a session id
	maxRedirects    = 10
)

// sendable reports whether a text from a server can be sent back as a header field: it must not end the field, nor make the request so large
// that servers refuse it.
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

// sameOrigin returns a copy of c that follows redirects only within an origin, because net/http would send the session id along, and only if
// they keep the method, because a POST that becomes a GET loses its message.
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

// answer is an HTTP response whose head has come.
type answer struct {
	status int
	header http.Header
	kind   string // media type
	body   io.ReadCloser
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	idle   time.Duration // how long a Read may take; 0: no limit
}

// Read reads the body, and fails after idle. The time between two Reads does not count: that is the caller's delay. If the request's context
// has ended, the error is its cause.
func (a *answer) Read(p []byte) (int, error) {
	if a.idle > 0 {
		defer time.AfterFunc(a.idle, func() { a.cancel(errIdle) }).Stop()
	}
	n, err := a.body.Read(p)
	if err != nil && err != io.EOF && a.ctx.Err() != nil { //nolint:errorlint // io.EOF of a Read is never wrapped
		err = context.Cause(a.ctx)
	}
	return n, err
}

// drain reads the little that may follow a JSON-RPC response, so that the connection can be used again.
func (a *answer) drain() {
	defer time.AfterFunc(drainTime, func() { a.cancel(nil) }).Stop()
	_, _ = io.CopyN(io.Discard, a.body, maxRefusalBytes) // after an error the connection is closed, which is fine
}

func (a *answer) close() {
	a.cancel(nil)
	_ = a.body.Close() // what was needed has been read
}

// unsentError means that no byte of a request was sent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// watchedBody is a request body that notes whether it was read. net/http sends a POST a second time (by GetBody) only if it knows that
// nothing of it was written, that the server redirects it, or that the server refused its HTTP/2 stream unread.
type watchedBody struct {
	*bytes.Reader

	read *atomic.Bool
}

func (w watchedBody) Read(p []byte) (int, error) {
	w.read.Store(true)
	return w.Reader.Read(p)
}

func (w watchedBody) WriteTo(to io.Writer) (int64, error) {
	w.read.Store(true)
	return w.Reader.WriteTo(to)
}

func (watchedBody) Close() error { return nil }

// do sends a request and waits for the head of its answer. cursor is the last event id; "": none.
func (s *Session) do(ctx context.Context, method, accept string, body []byte, cursor string) (*answer, error) {
	if cursor == "" {
		return s.exchange(ctx, method, accept, body, nil)
	}
	return s.exchange(ctx, method, accept, body, http.Header{"Last-Event-Id": {cursor}})
}

// exchange is do with more header fields.
func (s *Session) exchange(ctx context.Context, method, accept string, body []byte, more http.Header) (*answer, error) {
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
		req.GetBody = func() (io.ReadCloser, error) { return watchedBody{bytes.NewReader(body), &sent}, nil }
		req.Body = watchedBody{bytes.NewReader(body), &sent}
	}
	h := req.Header
	h.Set("Accept-Encoding", "identity") // a compressed answer may become larger without a bound
	if accept != "" {
		h.Set("Accept", accept)
	}
	if body != nil {
		h.Set("Content-Type", "application/json")
	}
	id, version := s.identity()
	if id != "" {
		h["Mcp-Session-Id"] = []string{id}
	}
	if version != "" {
		h["Mcp-Protocol-Version"] = []string{version}
	}
	maps.Copy(h, more)
	if d := s.cfg.HeaderTimeout; d > 0 {
		defer time.AfterFunc(d, func() { cancel(errNoHead) }).Stop()
	}
	res, err := s.http.Do(req) //nolint:bodyclose // answer.close does
	if err != nil {
		err = withoutURL(ctx, err)
		cancel(nil)
		if !sent.Load() {
			err = unsentError{err}
		}
		return nil, err
	}
	contentType, _ := field(res.Header, "Content-Type")
	kind, _, _ := mime.ParseMediaType(contentType) // "" if there is none
	a := &answer{status: res.StatusCode, header: res.Header, kind: kind, body: res.Body, ctx: ctx, cancel: cancel}
	if c := res.Header.Get("Content-Encoding"); (c != "" || res.Uncompressed) && !strings.EqualFold(c, "identity") {
		a.close()
		if a.body = http.NoBody; a.status == http.StatusOK {
			return nil, fmt.Errorf("%w: Content-Encoding %q, which was not accepted", ErrProtocol, c)
		}
	}
	return a, nil
}

// field is the value of a header field that should have one. A proxy may have sent it twice, or joined two lines with a comma (RFC 9110, 5.3):
// equal values count as one. Any other single line is the value, since a server's id may have a comma in it. It returns false if lines differ.
func field(h http.Header, name string) (string, bool) {
	lines := h.Values(name)
	if len(lines) == 0 {
		return "", true
	}
	value := lines[0]
	if first, rest, more := strings.Cut(value, ","); more && allEqual(strings.TrimSpace(first), strings.Split(rest, ",")) {
		value = strings.TrimSpace(first)
	}
	for _, line := range lines[1:] {
		if line != lines[0] && !allEqual(value, strings.Split(line, ",")) {
			return "", false
		}
	}
	return value, true
}

func allEqual(value string, parts []string) bool {
	for _, part := range parts {
		if strings.TrimSpace(part) != value {
			return false
		}
	}
	return true
}

// withoutURL removes the URL, which may be secret, from an error of net/http. If ctx has ended, it returns the cause.
func withoutURL(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// refused makes an error of a refusal. It takes at most shortTimeout.
func (s *Session) refused(a *answer) error {
	e := &StatusError{Status: a.status}
	defer time.AfterFunc(shortTimeout, func() { a.cancel(errIdle) }).Stop()
	raw, _ := io.ReadAll(io.LimitReader(a, maxRefusalBytes)) // what came before an error is used
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
		return &Error{Code: rejoin.CodeInternal, Message: "malformed error"}
	}
	return e
}

// byteOrderMark may stand before JSON (RFC 8259, 8.1) and before a stream.
var byteOrderMark = []byte("\xef\xbb\xbf")

// readAll reads a body in plain JSON.
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

// send sends a notification or an answer.
func (s *Session) send(ctx context.Context, body []byte) error {
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
