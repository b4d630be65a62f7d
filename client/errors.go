package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

var (
	// ErrMayHaveRun means that the connection was lost before the server gave an event id to resume from or, in version 2026-07-28, made the call a
	// task. The call may have run. It is not sent again.
	ErrMayHaveRun = errors.New("client: connection lost, and the server gave no event id: the call may have run")
	// ErrExpired means that the server no longer has the rest of the call, or does not know the event id or the task to resume from.
	ErrExpired = errors.New("client: the server no longer has the rest of this call")
	// ErrSessionGone means that the server no longer knows the session. Connect again.
	ErrSessionGone = errors.New("client: the session has ended")
	// ErrNoResponse means that the call has ended on the server without a response: it was cancelled there.
	ErrNoResponse = errors.New("client: the call ended without a response")
	// ErrUnanswered means that the server asked what Config.OnRequest did not answer, and that version 2026-07-28 has no way to say so. The call is
	// cancelled.
	ErrUnanswered = errors.New("client: a question of the server has no answer")
	// ErrCancelled means that Call.Cancel was called.
	ErrCancelled = errors.New("client: cancelled")
	// ErrLeft means that Call.Leave or Session.Leave was called.
	ErrLeft = errors.New("client: the call was left to its token")
	// ErrClosed means that Session.Close was called.
	ErrClosed = errors.New("client: the session was closed")
	// ErrNoStandalone means that the server has no standalone stream.
	ErrNoStandalone = errors.New("client: the server has no standalone stream")
	// ErrListening means that Config.OnNotification is set: it gets what comes on the standalone stream.
	ErrListening = errors.New("client: Config.OnNotification gets what the standalone stream brings")
	// ErrRetryTooLong means that the server asked for a wait of more than Config.RetryLimit.
	ErrRetryTooLong = errors.New("client: the server's retry is over Config.RetryLimit")
	// ErrRedirect means that the server answered with a redirect that the client does not follow: to another origin, since the request has the
	// session id in it; one that turns a POST into a GET; or one too many. The request was not sent there.
	ErrRedirect = errors.New("client: a redirect that is not followed")
	// ErrProtocol means that what came back is not an answer of an MCP server.
	ErrProtocol = errors.New("client: not an answer of an MCP server")
	// ErrToken means that a token was not made by Call.Token.
	ErrToken = errors.New("client: malformed token")

	errNoEnd  = errors.New("client: the stream ended before the response")
	errNoHead = errors.New("client: no answer within Config.HeaderTimeout")
	errIdle   = errors.New("client: nothing came within Config.IdleTimeout")
)

// Error is a JSON-RPC error: from the server or, returned by Config.OnRequest, to it. It is the type that servers use, too: a gateway can
// return the error of its call from a rejoin.Handler as it is.
type Error = rejoin.Error

// StatusError means that the server refused a request with an HTTP status.
type StatusError struct {
	Status int
	Err    *Error // nil: the body was not a JSON-RPC error
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("client: the server answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *StatusError) Unwrap() error {
	if e.Err == nil {
		return nil
	}
	return e.Err
}

// VersionError means that the server and this package have no protocol version in common.
type VersionError struct {
	Offered []string // the versions that the server named; nil: none
	Err     error    // the server's refusal; nil: it answered with a version that this package does not have
	speaks  string   // what was asked for; "": the versions of the legacy era
}

func (e *VersionError) Error() string {
	offered := "another protocol version"
	if len(e.Offered) > 0 {
		offered = "protocol version " + strings.Join(e.Offered, ", ")
	}
	speaks := "this client speaks " + strings.Join(versions, ", ") + ", which have sessions and polling"
	if e.speaks != "" {
		speaks = "this client was to speak " + e.speaks + " (Config.Era)"
	}
	text := "client: the server offers " + offered + "; " + speaks
	if e.Err != nil {
		text += ": " + strings.TrimPrefix(e.Err.Error(), "client: ")
	}
	return text
}

func (e *VersionError) Unwrap() error { return e.Err }

// lostError means that the connection of a request of the modern era was lost before the answer.
type lostError struct{ err error }

func (e lostError) Error() string {
	return "client: connection lost before the answer, and the call was no task: the server cancels it, but it may have run: " + e.err.Error()
}

func (lostError) Is(target error) bool { return target == ErrMayHaveRun }

func (e lostError) Unwrap() error { return e.err }

// GaveUpError means that Config.Attempts attempts in a row brought nothing. The call may still run: its Token works as long as the server
// keeps the call.
type GaveUpError struct {
	Attempts int
	Waited   time.Duration // since the first of these attempts
	Err      error         // why the last one failed
}

func (e *GaveUpError) Error() string {
	return fmt.Sprintf("client: gave up after %d attempts in %v without progress: %v", e.Attempts, e.Waited.Round(time.Millisecond), e.Err)
}

func (e *GaveUpError) Unwrap() error { return e.Err }
