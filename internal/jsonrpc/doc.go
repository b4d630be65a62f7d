// Package jsonrpc reads and writes the JSON-RPC 2.0 envelope and nothing inside it.
//
// The envelope is the outermost object of a message: the id, the method, and which kind of message it is. The contents (params, result,
// error) stay the bytes that were received. The package checks that they are JSON and passes them on. The check is strict for two reasons:
// what Parse accepts may be copied into another document, and no two parsers may disagree about the envelope.
//
// # What is accepted
//
// A body is one JSON value by RFC 8259, in UTF-8, with only white space around it. A byte order mark, a control character in a string, a
// trailing comma and invalid UTF-8 are not allowed. A lone surrogate escape ("\ud800") is JSON and is accepted. A body that breaks these
// rules is not JSON: [CodeParse].
//
// A message is an object. It is nested at most as deep as the caller allows; the message itself is level 1. Its keys:
//
//	jsonrpc  the string "2.0"; required
//	id       a string or a number, kept as it was written; null only beside "error"
//	method   a string that is not empty
//	params   an object; null counts as absent
//	result   any value; null beside an error counts as absent
//	error    an object; null beside a result counts as absent
//
// Keys are compared after their escapes are decoded, and case matters. A duplicate key is refused, and so is a key that differs from a known
// one only in case: readers differ in which of two values they take, and in whether "ID" is "id". Other keys are ignored.
//
// The keys decide the [Kind]: method and id make a Request, method alone a Notification, id and result a Result, id and error a Failure.
// Refused are method beside result or error, result beside error, a response without an id, and a message with none of method, result
// and error. A body that is JSON and breaks the rules of this section is not a message: [CodeInvalid].
//
// # Faults
//
// If a body has several faults, the fault that it is not JSON is reported before all others, then the first one read. A refusal should carry
// the id of what it refuses. So the Message beside an error has the ID if there is exactly one top-level "id" with a string or a number. It
// may stand anywhere in the body, or before the place where the body stops being JSON. So the first part of a body that was too large to
// read is enough. A number is not reported if the end of the body may have cut it.
//
// # Memory and time
//
// A message is read in one pass and without recursion. Up to 256 levels and without escapes in the method's name, nothing is allocated.
// Beyond 256 levels each level costs one bit, whether or not it is allowed. The fields of a Message point into the body: they are valid as
// long as the body is, and must not be written to.
//
// The rules are those of https://www.rfc-editor.org/rfc/rfc8259 (JSON), https://www.jsonrpc.org/specification (sections 4 to 6) and
// https://modelcontextprotocol.io/specification/2025-06-18/basic#messages, which narrows JSON-RPC: no null ids, params by name.
//
// All functions are safe for concurrent use. None keeps its arguments.
package jsonrpc
