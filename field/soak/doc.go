// Command soak runs thousands of clients of random behaviour against rejoin servers, for minutes or hours, and accounts for every event:
//
//	go run ./field/soak -for 30m -clients 2000
//
// One process has the servers: net/http, chi, echo and gin, each with a handler of rejoin's own and both bridges. Another process has the
// clients. They cut their connections anywhere, poll late, twice at once or never, cancel, delete, and send invalid requests. Each event
// that a tool has sent must arrive exactly once and in order, unless its client gave the call up or was told why it cannot have the event.
//
// A third of the clients are of version 2026-07-28, which has no sessions. Most of them declare tasks. They poll their tasks with pauses, cut
// connections during polls and listens, cancel, answer questions in part, twice, too late or never, leave their tasks, come back when these must
// have been abandoned or have expired, and ask for tasks of others. Each call ends once: with the result exactly as the tool returned it, with the
// client's own cut before an answer, or as a task. Each task ends once: with that result, or cancelled, abandoned or expired where its client gave
// cause. It never changes after its end. Clients without tasks must never get one.
//
// At the end the servers' process must hold what it held at the beginning: not a session, stream, task or goroutine more, and a heap that
// has grown only by what Go's runtime, maps and pools keep of the largest number of clients (soak.go, allowedGrowth). Otherwise the exit
// status is 1 and the log says what is wrong; for a heap that has grown there is a profile (-profile).
package main
