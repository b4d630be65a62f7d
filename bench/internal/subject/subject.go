// Package subject has the servers that are measured. All of them serve the same tools on the same path.
package subject

import (
	"net/http"
	"sync"
	"time"
)

// Path is where every subject serves MCP.
const Path = "/mcp"

// Subject is one server under test.
type Subject struct {
	Name    string
	Base    string // the subject that its ratios refer to
	Stream  bool   // tools/call is answered with SSE
	Primes  bool   // each stream begins with a primer
	Stores  bool   // events can be read again with Last-Event-ID
	Closes  bool   // a tool can close its stream ("hold" and "burst" with close)
	Session bool   // initialize opens a session; otherwise requests need none
	Modern  bool   // serves version 2026-07-28; the other subjects serve 2025-11-25
	Tasks   bool   // its clients declare the tasks extension; only if Modern
	Forward bool   // its sessions are opened at its Owner, and it forwards all other requests there
	Redis   bool   // it needs the address of an engine
	Notes   string // its settings, for the reader of the document
	New     func(Options) (http.Handler, error)
}

// Options are the settings that a scenario chooses for a subject.
type Options struct {
	// StoreBytes is the size of the event store, for libraries that can set it; 0: the library's default.
	StoreBytes int64
	// Gate is what calls of the tool "hold" wait for.
	Gate *Gate
	// Self is the URL of the process, for subjects in a cluster; empty: not asked for.
	Self string
	// Engine gets the engine of a subject in a cluster; nil: not asked for.
	Engine *Engine
	// Redis is the address of the engine, for subjects that use one.
	Redis string
	// Lease is that of a process in its cluster; 0: the default.
	Lease time.Duration
	// Owner gets the owner of the sessions, of a subject that forwards; nil: not asked for.
	Owner *Owner
}

// Gate ends the calls of "hold", all at once.
type Gate struct {
	once sync.Once
	open chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{open: make(chan struct{})} }

// Open opens the gate for good.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// Done is closed when the gate is open.
func (g *Gate) Done() <-chan struct{} { return g.open }

// The tools. Their result is one text.
//
//	echo   {"text": s}            answers s. In the subjects "mcpgo-sse…" it sends one notification first; otherwise mcp-go would answer JSON.
//	burst  {"n": i, "close": b}   close: first closes the stream. Then sends n notifications/progress as fast as it can (token of the
//	                              request, progress 1…n, total n, message "step"). It repeats a send that is refused. Answers "done".
//	hold   {"close": b, "text": s}
//	                              close: first closes the stream, with a retry of 1 s; a call whose client takes tasks becomes a task. Waits for
//	                              the gate. Answers "released" and the text.
const (
	Echo  = "echo"
	Burst = "burst"
	Hold  = "hold"
)
