package rejoin

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Error is a JSON-RPC error, sent to the client or received from it. The client sees Message and Data, so they must not contain internals.
// As JSON it is the error member of a response. Package client has the same type.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }

// Errorf returns an Error with a formatted message.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Codes of JSON-RPC 2.0, and codes of this package from the range that JSON-RPC leaves to implementations.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603

	codeServer  = -32000 // the server gave up the request; data.reason says why
	codeSession = -32001 // no such session
	// Of the modern era.
	codeHeader     = -32020 // a header field is missing or differs from the body
	codeCapability = -32021 // the client lacks a capability that the request needs
	codeVersion    = -32022 // the server does not speak this version
)

// Values of data.reason in the errors that a Server sends. Clients rely on them: they are part of the protocol on the wire.
const (
	ReasonExpired     = "expired"     // the server no longer keeps the rest of the request's messages
	ReasonStore       = "store"       // the event store cannot return events that it took
	ReasonAbandoned   = "abandoned"   // the client did not come back within AbandonAfter
	ReasonMaxRuntime  = "max_runtime" // the request ran longer than MaxRuntime
	ReasonShutdown    = "shutdown"    // the server shut down
	ReasonMoved       = "moved"       // another process owns the session; the request may have run
	ReasonOwnerLost   = "owner_lost"  // the process that ran the request was lost; the request may have run
	ReasonUnreachable = "unreachable" // the process that owns the session could not be reached; the request has not run
	ReasonEnded       = "ended"       // the app or an operator ended the session, or it was idle for too long
	ReasonUnknown     = "unknown"     // the session never sent this Last-Event-ID
)

// Reason returns data.reason, or "" if there is none. An error that a Server made itself has one of the Reason constants.
func (e *Error) Reason() string {
	raw, _ := jsonrpc.Field(e.Data, "reason")
	reason, _ := jsonrpc.Unquote(raw)
	return reason
}

// Errors that methods of Handle, Session and Server return. An error of CloseStream only means that the client keeps its connection, so a
// tool need not fail because of it.
var (
	ErrNoCall   = errors.New("rejoin: the context belongs to no call of a rejoin server")
	ErrEnded    = errors.New("rejoin: the call has ended")
	ErrUnknown  = errors.New("rejoin: no such session or stream")
	ErrNoStream = errors.New("rejoin: the client has no stream open that a request could travel on")
	ErrTooLarge = errors.New("rejoin: message over 16 MiB")
	// ErrNotResumable says that the client cannot be disconnected: it cannot poll, or it did not come back when it was disconnected before.
	ErrNotResumable = errors.New("rejoin: this client cannot poll")
	// ErrNotOffered says that the client did not offer, in its initialize, to answer such a request. Session.CanAsk tells beforehand.
	ErrNotOffered = errors.New("rejoin: the client offered no such capability")
	// ErrFull says that the event store has no more room for what the client has not fetched yet.
	ErrFull = eventstore.ErrFull
)

var errInvalidParams = errors.New("rejoin: params are not valid JSON")

// Causes with which a call's context ends.
var (
	ErrCancelled    = errors.New("rejoin: cancelled by the client")
	ErrAbandoned    = errors.New("rejoin: the client did not come back")
	ErrMaxRuntime   = errors.New("rejoin: the call ran longer than MaxRuntime")
	ErrSessionEnded = errors.New("rejoin: the session has ended")
	ErrShutdown     = errors.New("rejoin: the server is shutting down")
	// ErrMoved says that another process owns the session now: the event store returned eventstore.ErrFenced. AppSession.Ended gets it as well.
	// It wraps ErrSessionEnded.
	ErrMoved = fmt.Errorf("%w in this process: another one owns it now", ErrSessionEnded)
)

// causeOf returns the error for a reason: contexts end with it, questions fail with it, and senders get it.
func causeOf(why core.Reason) error {
	switch why {
	case core.Ended:
		return ErrEnded
	case core.NoStream:
		return ErrNoStream
	case core.NoRoom:
		return ErrFull
	case core.Cancelled:
		return ErrCancelled
	case core.Abandoned:
		return ErrAbandoned
	case core.Overran:
		return ErrMaxRuntime
	case core.Shutdown:
		return ErrShutdown
	case core.Moved:
		return ErrMoved
	}
	return ErrSessionEnded
}

// notifyError returns what the sender of a notification gets. That no client can read it is not an error.
func notifyError(why core.Reason) error {
	switch why {
	case core.NoRoom, core.Moved, core.Deleted:
		return causeOf(why)
	}
	return nil
}

// responseError returns what the sender of a response gets.
func responseError(why core.Reason) error {
	switch why {
	case core.NoReason, core.Unreachable:
		return nil
	case core.NoRoom, core.Moved, core.Deleted:
		return causeOf(why)
	}
	return ErrEnded
}

// operationError returns what the caller of an operation on a stream gets.
func operationError(why core.Reason) error {
	switch why {
	case core.NoReason:
		return nil
	case core.NotResumable:
		return ErrNotResumable
	}
	return ErrEnded
}

// failure returns the error that the client gets in place of a response that cannot come. Clients tell such errors apart by data.reason.
func failure(why core.Reason) *Error {
	reason := func(code int, message, name string) *Error {
		return &Error{Code: code, Message: message, Data: json.RawMessage(`{"reason":"` + name + `"}`)}
	}
	switch why {
	case core.Expired:
		return reason(codeServer, "the rest of this request's messages is no longer kept", ReasonExpired)
	case core.StoreFailed:
		return reason(CodeInternal, "the event store failed", ReasonStore)
	case core.Abandoned:
		return reason(codeServer, "the client did not come back in time", ReasonAbandoned)
	case core.Overran:
		return reason(codeServer, "the request ran longer than the server allows", ReasonMaxRuntime)
	case core.Shutdown:
		return reason(codeServer, "the server is shutting down", ReasonShutdown)
	case core.OwnerLost:
		return reason(codeServer, "the process that ran the request was lost; the request may have run", ReasonOwnerLost)
	case core.Moved:
		return reason(codeServer, "another process owns the session now; the request may have run", ReasonMoved)
	}
	return reason(codeServer, "the session has ended", ReasonEnded)
}

// unreachable is the error for a request that was not sent to the process that owns its session.
var unreachable = &Error{
	Code: codeServer, Message: "the process that owns the session could not be reached; the request has not run",
	Data: json.RawMessage(`{"reason":"` + ReasonUnreachable + `"}`),
}
