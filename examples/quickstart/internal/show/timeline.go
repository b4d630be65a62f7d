package show

import (
	"fmt"
	"io"
	"sync"
	"time"

	tl "github.com/rejoin-mcp/rejoin/examples/internal/timeline"
)

// timeline prints what happens. Its methods may be called from any goroutine.
type timeline struct {
	*tl.Timeline

	mu     sync.Mutex
	missed map[int]bool // steps that were made while the client was disconnected
}

// newTimeline prints the title. column names the last column.
func newTimeline(w io.Writer, title, column string) *timeline {
	return &timeline{Timeline: tl.New(w, title, column), missed: map[int]bool{}}
}

func (t *timeline) line(mark, id, text string) { t.Line(mark, tl.Shorten(id), text) }

func (t *timeline) sent(what string)       { t.line(tl.Out, "", what) }
func (t *timeline) polled(cursor string)   { t.line(tl.Out, cursor, "GET, Last-Event-ID") }
func (t *timeline) answered(what string)   { t.line(tl.In, "", what) }
func (t *timeline) result(id, text string) { t.line(tl.In, id, "result: "+text) }

func (t *timeline) asked(task string)     { t.line(tl.Out, task, "POST tasks/get") }
func (t *timeline) task(id, state string) { t.line(tl.In, id, state) }

func (t *timeline) primed(id string, retry time.Duration) {
	t.line(tl.In, id, fmt.Sprintf("primed, retry %v", retry))
}

func (t *timeline) closed(retry time.Duration) {
	t.line(tl.In, "", fmt.Sprintf("closed by the server, retry %v", retry))
}

func (t *timeline) waiting(d time.Duration) {
	t.line(tl.None, "", fmt.Sprintf("  waiting %v with no connection", d))
}

// progress prints a progress event, and whether it waited in the log or was sent at once.
func (t *timeline) progress(id string, step, total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	how := "live"
	if t.missed[step] {
		how = "replayed"
	}
	t.line(tl.In, id, fmt.Sprintf("progress %2d/%d  %s", step, total, how))
}

// away notes a step that was made while the client was disconnected.
func (t *timeline) away(step int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed[step] = true
	t.line(tl.None, "", fmt.Sprintf("  tool: step %d while nobody was connected", step))
}
