// Command quickstart shows what rejoin is for, on real HTTP, in about two seconds.
//
//	go run ./examples/quickstart               # a server and a client, and a timeline of the wire between them
//	go run ./examples/quickstart -era modern   # the same with a client of version 2026-07-28, whose call becomes a task
//	go run ./examples/quickstart -serve        # the server alone, for any MCP client
//	go run ./examples/quickstart -router gin   # any of them on another router: chi, echo, gin or stdlib
//
// A tool reports progress, closes its stream three times, and works on while its client is disconnected. The client polls when it was told to,
// with the id of the last event that it got. The exit code is 0 only if each event came once, in order, and the result last.
//
// With -era modern the same tool runs, and the first time that it closes its stream, its call becomes a task. The client polls that as often as it
// was told to: it sees what the tool last said of its progress, and at last the result.
//
// It needs only net/http. With -router it builds and runs the command in the folder of that name, which needs that router.
//
// To start your own server, copy internal/show/server.go and the function mount of main.go, or of your router's main.go.
package main
