package rejoin

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Error is a JSON-RPC error, to and from the client. Message and Data go over the wire: no internals.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage
}

func (e *Error) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }

// Errorf makes an Error.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Codes of JSON-RPC 2.0, and those the transport adds from the range that it leaves to implementations.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603

	codeServer  = -32000 // the server gave the request up; data.reason says why
	codeSession = -32001 // no such session
	codeVersion = -32022 // of the modern era: a version that is not spoken
)

// What the methods of a Handle, a Session and a Server return. An error of CloseStream means only that the client keeps its
// connection: no tool needs to fail for it.
var (
	ErrNotResumable = errors.New("rejoin: this client cannot poll")
	ErrNoCall       = errors.New("rejoin: the context belongs to no call of a rejoin server")
	ErrEnded        = errors.New("rejoin: the call has ended")
	ErrUnknown      = errors.New("rejoin: no such session or stream")
	ErrNoStream     = errors.New("rejoin: the client has no stream open that a request could travel on")
	ErrTooLarge     = errors.New("rejoin: message over 16 MiB")
	// ErrNotOffered says that the client did not offer, in its initialize, to be asked that: it would not answer, or not as it should.
	// Session.CanAsk tells beforehand.
	ErrNotOffered = errors.New("rejoin: the client offered no such capability")
	// ErrFull says that the event store has no room for what the client has not fetched yet.
	ErrFull = eventstore.ErrFull
)

var errInvalidParams = errors.New("rejoin: params are not valid JSON")

// Causes of a call's context.
var (
	ErrCancelled    = errors.New("rejoin: cancelled by the client")
	ErrAbandoned    = errors.New("rejoin: the client did not come back")
	ErrMaxRuntime   = errors.New("rejoin: the call ran longer than MaxRuntime")
	ErrSessionEnded = errors.New("rejoin: the session has ended")
	ErrShutdown     = errors.New("rejoin: the server is shutting down")
	// ErrMoved is also what AppSession.Ended is given: the event store said that another process owns the session now
	// (eventstore.ErrFenced). It is an ErrSessionEnded.
	ErrMoved = fmt.Errorf("%w in this process: another one owns it now", ErrSessionEnded)
)

// causeOf is the cause that a call's context is cancelled with.
func causeOf(why core.Reason) error {
	switch why {
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

// discardError is what the sender of a message is told that goes nowhere. Broadcasts that nobody can hear, and progress that
// nobody waits for, are no fault of the sender.
func discardError(m *message, why core.Reason) error {
	switch {
	case m.op == core.Reply:
		if why == core.Unreachable {
			return nil
		}
		return ErrEnded
	case m.flags&core.Ask != 0:
		if why == core.Ended {
			return ErrSessionEnded
		}
		return ErrNoStream
	case why == core.Ended:
		return ErrSessionEnded
	}
	return nil
}

// failure is the error response that takes the place of a response that cannot come. Clients tell them apart by data.reason.
func failure(why core.Reason) *Error {
	reason := func(code int, message, name string) *Error {
		return &Error{Code: code, Message: message, Data: json.RawMessage(`{"reason":"` + name + `"}`)}
	}
	switch why {
	case core.Expired:
		return reason(codeServer, "the rest of this request's messages is no longer kept", "expired")
	case core.StoreFailed:
		return reason(CodeInternal, "the event store failed", "store")
	case core.Abandoned:
		return reason(codeServer, "the client did not come back in time", "abandoned")
	case core.Overran:
		return reason(codeServer, "the request ran longer than the server allows", "max_runtime")
	case core.Shutdown:
		return reason(codeServer, "the server is shutting down", "shutdown")
	case core.Moved:
		return reason(codeServer, "another process owns the session now; the request may have run", "moved")
	}
	return reason(codeServer, "the session has ended", "ended")
}
