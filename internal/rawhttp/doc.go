// Package rawhttp plays bytes over connections to a real http.Server, in virtual time, and checks all that comes back: each answer is valid
// HTTP, each body is JSON-RPC or a well-formed stream, nothing panics, and nothing is left when the clients have gone. It is what the
// fuzz targets of raw HTTP share, here and in the bridges.
//
// A script is the bytes that clients send, with names in braces. Some stand for a value that the server has given, so that a mutated script
// still gets past the door:
//
//	{{session}}  the newest session id; where there is none yet, a session of version 2025-11-25 is opened
//	{{batches}}  the id of a session of version 2025-03-26
//	{{cursor}}   the newest event id
//	{{question}} the id, as JSON, of the newest question of the server
//	{{length}}   the length of what comes after the head in which it stands, up to the next name below
//	{{fill}}     5,000 times x
//
// The others do something with what was sent so far:
//
//	{{end}}    the end of a body, for {{length}}
//	{{wait}}   lets the server come to rest
//	{{later}}  lets 1.5 s pass: a head is due, and so is a client that was told to come back
//	{{long}}   lets 20 s pass: a comment is due
//	{{new}}    goes on over another connection; the one so far stays open
//	{{back}}   goes on over the connection before this one
//	{{fin}}    ends the client's direction
//	{{cut}}    breaks the connection; what was not read yet is lost
//	{{freeze}} the client reads no more
package rawhttp
