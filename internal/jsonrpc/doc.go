// Package jsonrpc reads and writes the JSON-RPC 2.0 envelope, and nothing inside it.
//
// The envelope is the outermost object of a message: who is asked for what under which id. What it carries (params, result,
// error) stays the bytes that were received; the package checks that they are JSON and hands them on. That is why the check is
// strict: whatever Parse accepts may be copied into another document, and no two parsers will disagree about the envelope.
//
// # What is accepted
//
// A body is one JSON value by RFC 8259, in UTF-8, with nothing but white space around it. No byte order mark, no control
// characters in strings, no trailing comma, no invalid UTF-8. A lone surrogate escape ("\ud800") is JSON and is accepted. A body
// that breaks these rules is not JSON: [CodeParse].
//
// A message is an object, nested at most as deep as the caller allows (the message itself is level 1). Its keys:
//
//	jsonrpc  the string "2.0", always there
//	id       a string or a number, kept as it was written; null only beside "error"
//	method   a string that is not empty
//	params   an object; null counts as absent
//	result   any value; null beside an error counts as absent
//	error    an object; null beside a result counts as absent
//
// Keys are compared after their escapes are decoded, and case matters. A key twice, or one that differs from a known key only in
// case, is refused: readers differ in which of two they take, and in whether "ID" is "id". Other keys are ignored.
//
// Which of the keys are there decides the [Kind]: method and id make a Request, method alone a Notification, id and result a
// Result, id and error a Failure. Method beside result or error, result beside error, a response without an id, and none of the
// three are refused. JSON which breaks the rules of this section is no message: [CodeInvalid].
//
// # Faults
//
// If a body has several faults, that it is not JSON outranks all others, then the first one read counts. A refusal should carry
// the id of what it refuses, so the Message that comes with an error has the ID if there is exactly one top-level "id" with a
// string or a number: anywhere in the body, or before the place where it stops being JSON. So the first part of a body that was
// too large to read will do as well. A number that the end of the body may have cut is not reported.
//
// # Memory and time
//
// A message is read in one pass, without recursion and, up to 256 levels and without escapes in the method's name, without
// allocation. Past 256 levels a level costs one bit, whether or not it is allowed. The fields of a Message point into the body:
// they are valid for as long as the body is, and must not be written to.
//
// The rules are those of https://www.rfc-editor.org/rfc/rfc8259 (JSON), https://www.jsonrpc.org/specification (sections 4 to 6) and
// https://modelcontextprotocol.io/specification/2025-06-18/basic#messages, which narrows JSON-RPC: no null ids, params by name.
//
// All functions are safe for concurrent use; none keeps its arguments.
package jsonrpc
