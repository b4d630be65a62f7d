package main

import (
	"sync"

	"github.com/rejoin-mcp/rejoin/client"
)

// tokenWriter writes the newest token of a call into a file. A token stands after the last message that was taken, so it may be written
// only when that message has been printed: the loop that prints does it. Until the first message, tokens change with primers, for which
// no loop runs: these are seen in the trace. So is the moment in which a call becomes a task: no message before that can come again.
type tokenWriter struct {
	app  *app
	url  string
	file tokenFile

	mu      sync.Mutex
	call    *client.Call
	stream  string // the call's stream, in traces
	started bool   // a message has come: from now on only the loop writes
	task    bool   // the call is a task
	warned  bool
}

func newTokenWriter(a *app, url string) *tokenWriter {
	return &tokenWriter{app: a, url: url, file: tokenFile(a.tokenFile)}
}

// watch returns a Config.Trace that writes the token at primers, and calls next, if that is set.
func (w *tokenWriter) watch(next func(client.TraceEvent)) func(client.TraceEvent) {
	if w.file == "" {
		return next
	}
	return func(e client.TraceEvent) {
		if next != nil {
			next(e)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case e.Kind == client.TracePost && e.Method == "tools/call":
			w.stream, w.started = e.Stream, false
		case e.Kind == client.TracePoll && w.stream == "":
			w.stream = e.Stream
		case e.Stream != w.stream:
		case e.Kind == client.TraceMessage:
			w.started = true
		case e.Kind == client.TracePrimer && !w.started:
			w.writeLocked()
		case e.Kind == client.TraceTask && !w.task:
			w.task = true
			w.writeLocked()
		}
	}
}

// begin sets the call. It must come before a loop over its messages.
func (w *tokenWriter) begin(c *client.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call = c
	w.writeLocked()
}

// write writes the token. All messages that were taken must have been printed.
func (w *tokenWriter) write() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeLocked()
}

func (w *tokenWriter) token() string { return joinToken(w.url, w.call.Token()) }

func (w *tokenWriter) writeLocked() {
	if w.call != nil {
		w.warn(w.file.write(w.token()))
	}
}

// remove removes the file.
func (w *tokenWriter) remove() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warn(w.file.remove())
}

// warn prints the first error.
func (w *tokenWriter) warn(err error) {
	if err != nil && !w.warned {
		w.warned = true
		w.app.out.console.line("rejoin: the token file: " + err.Error())
	}
}
