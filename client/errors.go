package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

var (
	// ErrMayHaveRun means that the connection was lost, and the server gave no event id to go on from. The call may have run; it is not sent again.
	ErrMayHaveRun = errors.New("client: connection lost, and the server gave no event id: the call may have run")
	// ErrExpired means that the server no longer has the rest of this call, or does not know where it stood.
	ErrExpired = errors.New("client: the server no longer has the rest of this call")
	// ErrSessionGone means that the server does not know the session any more. Connect again.
	ErrSessionGone = errors.New("client: the session has ended")
	// ErrNoResponse means that the server says that the call has ended, and gave no response. It was cancelled there.
	ErrNoResponse = errors.New("client: the call ended without a response")
	// ErrCancelled means that Call.Cancel was called.
	ErrCancelled = errors.New("client: cancelled")
	// ErrLeft means that Call.Leave was called, or Session.Leave.
	ErrLeft = errors.New("client: the call was left to its token")
	// ErrClosed means that Session.Close was called.
	ErrClosed = errors.New("client: the session was closed")
	// ErrNoStandalone means that the server has no standalone stream.
	ErrNoStandalone = errors.New("client: the server has no standalone stream")
	// ErrListening means that Config.OnNotification has the standalone stream.
	ErrListening = errors.New("client: Config.OnNotification gets what the standalone stream brings")
	// ErrRetryTooLong means that the server asks to come back later than Config.RetryLimit.
	ErrRetryTooLong = errors.New("client: the server's retry is over Config.RetryLimit")
	// ErrRedirect means that the server wants the request to go where it must not (another origin: it holds the session id), as something else
	// (a POST as a GET), or in circles. It was not sent there.
	ErrRedirect = errors.New("client: a redirect that is not followed")
	// ErrProtocol means that the server answered with something that is no answer.
	ErrProtocol = errors.New("client: not an answer of an MCP server")
	// ErrToken is about a token that no Call.Token made.
	ErrToken = errors.New("client: malformed token")

	errNoHead = errors.New("client: no answer within Config.HeaderTimeout")
	errIdle   = errors.New("client: nothing came within Config.IdleTimeout")
)

// Error is a JSON-RPC error, from the server or, by Config.OnRequest, to it.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// reason is the member of that name of the data.
func (e *Error) reason() string {
	var data struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(e.Data, &data) // it may be anything
	return data.Reason
}

// StatusError is an HTTP answer that is a refusal.
type StatusError struct {
	Status int
	Err    *Error // nil: its body was no JSON-RPC error
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

// VersionError means that the server speaks no version that this package does.
type VersionError struct {
	Offered []string // as far as it says; nil: it does not
	Err     error    // its refusal; nil: it chose a version that is not known here
}

func (e *VersionError) Error() string {
	offered := "another protocol version"
	if len(e.Offered) > 0 {
		offered = "protocol version " + strings.Join(e.Offered, ", ")
	}
	text := "client: the server offers " + offered + "; this client speaks " + strings.Join(versions, ", ") + ", which have sessions and polling"
	if e.Err != nil {
		text += ": " + strings.TrimPrefix(e.Err.Error(), "client: ")
	}
	return text
}

func (e *VersionError) Unwrap() error { return e.Err }

// GaveUpError means that so many attempts in a row brought nothing. The call may still run: its Token works as long as the server keeps it.
type GaveUpError struct {
	Attempts int
	Waited   time.Duration // since the first of them
	Err      error         // of the last
}

func (e *GaveUpError) Error() string {
	return fmt.Sprintf("client: gave up after %d attempts in %v without progress: %v", e.Attempts, e.Waited.Round(time.Millisecond), e.Err)
}

func (e *GaveUpError) Unwrap() error { return e.Err }
