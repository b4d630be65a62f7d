package jsonrpc

import "strconv"

// The codes of an [Error].
const (
	CodeParse   = -32700 // the body is not JSON
	CodeInvalid = -32600 // the body is JSON, but no message
)

// Error says why a body was refused. Parse and ParseBatch return no other type of error than *Error.
type Error struct {
	Code int // CodeParse or CodeInvalid
	// Reason is a short English phrase without a full stop. It may be sent to the client: of the body it repeats at most a
	// misspelt key.
	Reason string
}

func (e *Error) Error() string { return "jsonrpc: " + e.Reason }

// syntax records that the body is not JSON at offset i, for want of what. It replaces any other fault.
func (s *scanner) syntax(i int, want string) {
	at := strconv.Itoa(i)
	if i >= len(s.b) {
		s.fault = &Error{Code: CodeParse, Reason: s.prefix() + "not JSON: ends at offset " + at + ", expected " + want}
		return
	}
	s.fault = &Error{Code: CodeParse, Reason: s.prefix() + "not JSON at offset " + at + ": expected " + want}
}

// invalid records that the body is no message, unless a fault is known already.
func (s *scanner) invalid(reason string) {
	if s.fault == nil {
		s.fault = &Error{Code: CodeInvalid, Reason: s.prefix() + reason}
	}
}

// prefix names the message of a batch that is being read.
func (s *scanner) prefix() string {
	if s.part == 0 {
		return ""
	}
	return "message " + strconv.Itoa(s.part) + ": "
}

// broken reports that the body is not JSON, and that there is no point in reading on.
func (s *scanner) broken() bool { return s.fault != nil && s.fault.Code == CodeParse }
