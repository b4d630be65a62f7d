// Command soak lets thousands of clients of random behaviour loose on rejoin servers, for minutes or hours, and accounts for every event:
//
//	go run ./field/soak -for 30m -clients 2000
//
// The servers are one process: net/http, chi, echo and gin, each with an own handler and both bridges. The clients are another. They cut
// their connections anywhere, come back late, twice at once or never, cancel, delete, and send rubbish. Each event that a tool has sent
// must arrive exactly once and in order, unless its client gave that up or was told why it cannot have it; and in the end the servers'
// process must hold what it held at the beginning: no session, stream or goroutine more, and a heap that has grown by no more than what Go's
// runtime, maps and pools keep of the largest number of clients (soak.go, slack). Exit status 1: it was not so, and the log says where; of a
// heap that has grown there is a profile (-profile).
package main
