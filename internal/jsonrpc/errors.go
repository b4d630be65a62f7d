package jsonrpc

import "strconv"

// The codes of an [Error].
const (
	CodeParse   = -32700 // the body is not JSON
	CodeInvalid = -32600 // the body is JSON, but not a message
)

// Error says why a body was refused. All errors of this package have type *Error.
type Error struct {
	Code int // CodeParse or CodeInvalid
	// Reason is a short English phrase without a full stop. It may be sent to the client: it repeats nothing of the body except a
	// misspelt key.
	Reason string
}

func (e *Error) Error() string { return "jsonrpc: " + e.Reason }

// syntax records that the body is not JSON at offset i, where want was expected. It replaces any other fault.
func (s *scanner) syntax(i int, want string) {
	at := strconv.Itoa(i)
	if i >= len(s.b) {
		s.fault = &Error{Code: CodeParse, Reason: s.prefix() + "not JSON: ends at offset " + at + ", expected " + want}
		return
	}
	s.fault = &Error{Code: CodeParse, Reason: s.prefix() + "not JSON at offset " + at + ": expected " + want}
}

// invalid records that the body is not a message, unless a fault is known already.
func (s *scanner) invalid(reason string) {
	if s.fault == nil {
		s.fault = &Error{Code: CodeInvalid, Reason: s.prefix() + reason}
	}
}

// prefix names the current message of a batch.
func (s *scanner) prefix() string {
	if s.messageNumber == 0 {
		return ""
	}
	return "message " + strconv.Itoa(s.messageNumber) + ": "
}

// notJSON reports that the body is not JSON. Then the scanner stops.
func (s *scanner) notJSON() bool { return s.fault != nil && s.fault.Code == CodeParse }
