// Package hop sends HTTP requests of sessions to the process that owns the session, and passes on what that answers. It knows neither sessions nor
// JSON-RPC: the driver decides what is sent, and what a client gets if the owner does not answer.
//
// A request travels one hop. It is the request of the client, with one header field more ([Note]). Each answer of a server of rejoin has a field that
// names the process ([Mark]); an answer without it comes from something in between.
package hop
