package main

import (
	"sync"

	"github.com/rejoin-mcp/rejoin/client"
)

// keeper keeps a call's newest token in a file. A token stands after the last message that was taken, so the file may get it only when
// that has been printed: from the loop that prints. Before the first message there is no such loop to wait for, and primers
// move the token; these are seen in the trace.
type keeper struct {
	app  *app
	url  string
	file tokenFile

	mu      sync.Mutex
	call    *client.Call
	stream  string // the call's, in traces
	printed bool   // a message has come: the loop has the file
	warned  bool
}

func newKeeper(a *app, url string) *keeper {
	return &keeper{app: a, url: url, file: tokenFile(a.tokenFile)}
}

// watch looks for primers on the way to next.
func (k *keeper) watch(next func(client.TraceEvent)) func(client.TraceEvent) {
	if k.file == "" {
		return next
	}
	return func(e client.TraceEvent) {
		if next != nil {
			next(e)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case e.Kind == client.TracePost && e.Method == "tools/call":
			k.stream, k.printed = e.Stream, false
		case e.Kind == client.TracePoll && k.stream == "":
			k.stream = e.Stream
		case e.Stream != k.stream:
		case e.Kind == client.TraceMessage:
			k.printed = true
		case e.Kind == client.TracePrimer && !k.printed:
			k.write()
		}
	}
}

// follow says which call it is, before anybody takes its messages.
func (k *keeper) follow(c *client.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.call = c
	k.write()
}

// keep is called when all messages that were taken have been printed.
func (k *keeper) keep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.write()
}

func (k *keeper) token() string { return joinToken(k.url, k.call.Token()) }

func (k *keeper) write() {
	if k.call != nil {
		k.warn(k.file.keep(k.token()))
	}
}

func (k *keeper) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.warn(k.file.drop())
}

func (k *keeper) warn(err error) {
	if err != nil && !k.warned {
		k.warned = true
		k.app.out.console.line("rejoin: the token file: " + err.Error())
	}
}
