package jsonrpc

import (
	"iter"
	"math"
)

// Kind is the kind of a message.
type Kind uint8

// The kinds.
const (
	Request      Kind = iota // expects a response
	Notification             // expects no response
	Result                   // a response with a result
	Failure                  // a response with an error
)

// Message is the envelope of a message. It points into the body it was parsed from.
type Message struct {
	Kind   Kind
	ID     []byte // as it was written (`1`, `1.5`, `"1"`); nil in a Notification; may be `null` in a Failure
	Method []byte // the decoded name, without quotes: a part of the body unless it has escapes; nil in a response
	Params []byte // an object, nil if absent; always nil in a response
	Result []byte // any value, in a Result
	Err    []byte // an object, in a Failure
	Raw    []byte // the whole message, without the white space around it
}

// Parse reads a body that is one message, nested at most depth levels deep. Its error is always an *Error. With an error the Message is empty
// except for the ID, if that is known.
func Parse(body []byte, depth int) (Message, error) {
	s := scanner{b: body, limit: depth}
	if !s.begin() {
		return Message{}, s.fault
	}
	m := s.message()
	if !s.notJSON() {
		s.end()
	}
	if s.fault != nil {
		if string(m.ID) == "null" { // a Failure with bytes after it; null is not an id that a refusal could carry
			m.ID = nil
		}
		return Message{ID: m.ID}, s.fault
	}
	return m, nil
}

// IsBatch reports whether a body begins as an array does. Then ParseBatch must read it, else Parse.
func IsBatch(body []byte) bool {
	i := skipSpace(body, 0)
	return i < len(body) && body[i] == '['
}

// ParseBatch reads a body that is an array of one or more messages and appends them to dst. The array does not count for depth. With an error,
// dst has grown by the messages before the first faulty one. The error's reason begins with the number of that message, counted from 1
// ("message 3: …"), unless the fault is in the array itself.
func ParseBatch(dst []Message, body []byte, depth int) ([]Message, error) {
	for m, err := range Batch(body, depth) {
		if err != nil {
			return dst, err
		}
		dst = append(dst, m)
	}
	return dst, nil
}

// Batch reads a body that is an array of messages, one by one, so it needs no memory for all of them. An error comes last. By then the messages
// before the first faulty one were yielded, also if the body turns out not to be JSON. A caller that wants all messages or none reads
// the body twice. Errors are as with ParseBatch.
func Batch(body []byte, depth int) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		s := scanner{b: body, limit: depth}
		stopped := false
		if s.begin() && s.batch(func(m Message) bool { stopped = !yield(m, nil); return !stopped }) {
			s.end()
		}
		if s.fault != nil && !stopped {
			yield(Message{}, s.fault)
		}
	}
}

// batch reads an array of messages. It returns false if the body is not JSON or yield returned false.
func (s *scanner) batch(yield func(Message) bool) bool {
	if s.i >= len(s.b) || s.b[s.i] != '[' {
		s.invalid("a batch must be an array")
		return s.value(0)
	}
	s.i = skipSpace(s.b, s.i+1)
	if s.i < len(s.b) && s.b[s.i] == ']' {
		s.i++
		s.invalid("an empty batch")
		return true
	}
	for n := 1; ; n++ {
		s.messageNumber = n
		m := s.message()
		if s.notJSON() {
			return false
		}
		s.messageNumber = 0
		if s.fault == nil && !yield(m) {
			return false
		}
		s.i = skipSpace(s.b, s.i)
		switch {
		case s.i < len(s.b) && s.b[s.i] == ',':
			s.i = skipSpace(s.b, s.i+1)
		case s.i < len(s.b) && s.b[s.i] == ']':
			s.i++
			return true
		default:
			s.syntax(s.i, "',' or ']'")
			return false
		}
	}
}

// Valid reports whether a value is JSON in UTF-8 with only white space around it. Up to 256 levels it does not allocate.
func Valid(value []byte) bool {
	s := scanner{b: value, limit: math.MaxInt}
	if s.begin() && s.value(0) {
		s.end()
	}
	return s.fault == nil
}
