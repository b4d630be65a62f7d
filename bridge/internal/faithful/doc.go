// Package faithful stands between rejoin and an SDK's own handler of the modern era, and keeps from the client what that handler cannot do.
//
// An SDK decodes the id of a request, and its progress token, into a float64 or an int64, and what it answers with is then another number. So
// where one would not come back as the client spelt it, the SDK is given a random string in its place, and that is put back into whatever it
// writes. What is no progress token (neither a string nor a number, or longer than a kilobyte) becomes null: then no progress is sent.
//
// An SDK refuses some requests in text/plain. That becomes a JSON-RPC error with the same text, status and header, and with the id of the
// request, without which a client cannot tell what was refused.
//
// Requests that need none of it pass as they are.
package faithful
