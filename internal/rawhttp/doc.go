// Package rawhttp sends bytes over connections to a real http.Server, in virtual time, and checks all that comes back: each answer is valid
// HTTP, each body is JSON-RPC or a well-formed stream, nothing panics, and nothing is left when the clients have gone. The fuzz targets of
// raw HTTP share it, here and in the bridges.
//
// A script is the bytes that clients send, with names in braces. Some names stand for a value from the server, so that the server still
// accepts a mutated script:
//
//	{{session}}  the newest session id; if there is none yet, a session of version 2025-11-25 is opened
//	{{batches}}  the id of a session of version 2025-03-26
//	{{cursor}}   the newest event id
//	{{task}}     the newest task id
//	{{question}} the id, as JSON, of the server's newest request to the client
//	{{length}}   the length of what follows the head that contains it, up to the next name of the list below
//	{{fill}}     the letter x 5,000 times
//
// The others send what comes before them, and then act:
//
//	{{end}}    ends a body, for {{length}}
//	{{wait}}   waits until all goroutines of the server are blocked
//	{{later}}  lets 1.5 s pass: a head is due, and a client that was told to come back is due
//	{{long}}   lets 20 s pass: a comment is due
//	{{new}}    goes on over a new connection; the one so far stays
//	{{back}}   goes on over the connection before this one
//	{{fin}}    closes the client's direction
//	{{cut}}    breaks the connection; bytes that were not read yet are lost
//	{{freeze}} stops the client from reading
package rawhttp
