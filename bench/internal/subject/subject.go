// Package subject has the servers that are measured. All of them serve the same tools, on the same path, to the same clients.
package subject

import (
	"net/http"
	"sync"
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
	Closes  bool   // a tool can let its client go ("hold" and "record" with close)
	Session bool   // initialize opens a session; else requests need none
	Notes   string // what a reader should know of its settings
	New     func(Options) (http.Handler, error)
}

// Options are what a scenario may ask of a subject.
type Options struct {
	// StoreBytes is the room that an event store has, where it can be said; 0: the library's default.
	StoreBytes int64
	// Gate holds the calls of the tool "hold" back.
	Gate *Gate
}

// Gate lets the calls of "hold" end all at once.
type Gate struct {
	once sync.Once
	open chan struct{}
}

// NewGate returns a gate that is shut.
func NewGate() *Gate { return &Gate{open: make(chan struct{})} }

// Open lets everybody through, for ever.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// Done is closed when the gate is open.
func (g *Gate) Done() <-chan struct{} { return g.open }

// The tools. Their only content is one text.
//
//	echo   {"text": s}                 answers s. Of the subjects "mcpgo-sse…" it sends one notification first, without which mcp-go answers JSON.
//	burst  {"n": i, "close": b}        close: lets the client go first. Then sends n notifications/progress (token of the request, progress 1…n, total n,
//	                                   message "step"), one after the other as fast as it can, none lost (a send that is refused is repeated); answers "done".
//	hold   {"close": b}                close: lets the client go first, to come back after 1 s. Waits for the gate; answers "released".
const (
	Echo  = "echo"
	Burst = "burst"
	Hold  = "hold"
)
