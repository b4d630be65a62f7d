// Package faithful wraps an SDK's own handler of the modern era, and corrects two things that both SDKs do.
//
// SDKs decode the id of a request and its progress token as float64 or int64, and so may answer with another number. If a value would not come
// back as the client spelt it, the SDK gets a random string in its place, and Handler replaces this string by the value in all that the SDK
// writes. A progress token that is neither a string nor a number, or longer than 1 KiB, becomes null: then no progress is sent.
//
// SDKs refuse some requests in text/plain. The client gets such a refusal as a JSON-RPC error with the same text, status and header, and with
// the id of the request: otherwise a client cannot know which request was refused.
//
// Other requests and responses are not changed.
package faithful
