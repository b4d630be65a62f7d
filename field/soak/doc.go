// Command soak runs thousands of clients of random behaviour against rejoin servers, for minutes or hours, and accounts for every event:
//
//	go run ./field/soak -for 30m -clients 2000
//
// One process has the servers: net/http, chi, echo and gin, each with a handler of rejoin's own and both bridges. Another process has the
// clients. They cut their connections anywhere, poll late, twice at once or never, cancel, delete, and send invalid requests. Each event
// that a tool has sent must arrive exactly once and in order, unless its client gave the call up or was told why it cannot have the event. At
// the end the servers' process must hold what it held at the beginning: not a session, stream or goroutine more, and a heap that has grown
// only by what Go's runtime, maps and pools keep of the largest number of clients (soak.go, allowedGrowth). Otherwise the exit status is 1
// and the log says what is wrong; for a heap that has grown there is a profile (-profile).
package main
