package respond

import (
	"net/http"
	"strings"
	"sync"

	"github.com/rejoin-mcp/rejoin/internal/safe"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// Collector takes the response of a handler that has no client, and finds the messages in it: in a stream of events, or in a body of JSON. Set
// the exported fields before its use.
type Collector struct {
	// Message gets each message, which it may keep. It is called without a lock, from the goroutine that writes, but for a body of JSON
	// from the one that calls Ended.
	Message func(message []byte)
	// Ended is called once, when the handler has ended. what and stack are as in Relay.Panicked.
	Ended func(what any, stack string)
	// Limit is the most bytes of one message. What is over it makes the writes of the handler fail.
	Limit int

	mu      sync.Mutex
	status  int
	headed  bool
	stream  bool
	events  sse.Splitter
	body    []byte
	tooMuch bool
}

// Collect runs a handler for a Collector, in a goroutine of its own.
func Collect(h http.Handler, req *http.Request, c *Collector) {
	in := newRelayWriter(nil)
	in.to, in.left = c, make(chan struct{})
	close(in.left)
	go func() {
		safe.Run(func() {
			h.ServeHTTP(flushingRelayWriter{&in}, req)
			c.end(nil, "")
		}, c.end)
	}()
}

// obey does one thing that the handler asks for. header is the handler's.
func (c *Collector) obey(o relayOrder, header http.Header) error {
	if o.begin {
		if o.message != nil {
			c.Message(o.message)
		}
		return nil
	}
	if o.status >= 100 && o.status < 200 {
		return nil
	}
	var found [][]byte
	c.mu.Lock()
	if !c.headed {
		c.headed, c.stream, c.status = true, IsStream(header), max(o.status, http.StatusOK)
	}
	if len(o.data) > 0 && !c.tooMuch {
		c.take(o.data, &found)
	}
	tooMuch := c.tooMuch
	c.mu.Unlock()
	for _, message := range found {
		c.Message(message)
	}
	if tooMuch {
		return sse.ErrTooLarge
	}
	return nil
}

// take looks into what was written. Under the lock.
func (c *Collector) take(data []byte, found *[][]byte) {
	if c.stream {
		c.events.Max = c.Limit
		c.tooMuch = c.events.Write(data, func(message []byte) { *found = append(*found, message) }) != nil
		return
	}
	if c.tooMuch = len(c.body)+len(data) > c.Limit; !c.tooMuch {
		c.body = append(c.body, data...)
	}
}

// Status returns the HTTP status that the handler has chosen; 0: it has not begun its response.
func (c *Collector) Status() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// end tells that the handler has ended.
func (c *Collector) end(what any, stack string) {
	c.mu.Lock()
	body := c.body
	c.body = nil
	c.mu.Unlock()
	if what == nil && len(body) > 0 {
		c.Message(body)
	}
	c.Ended(what, stack)
}

// IsStream reports whether a header announces a stream of events.
func IsStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), sseType[0])
}
