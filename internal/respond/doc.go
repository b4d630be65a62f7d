// Package respond writes HTTP responses: through any chain of middleware, with write deadlines that roll forward, and with comments that
// keep a silent stream alive. Only the goroutine that serves a request may use what this package makes of its http.ResponseWriter.
//
// A [Relay] is how an app's own http.Handler writes from other goroutines. It may leave its client while the handler runs: then a [Collector] takes
// what the handler writes.
package respond
