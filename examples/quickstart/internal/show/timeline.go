package show

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// timeline prints events, one a line, with the seconds since its start. Its methods may be called from any goroutine.
type timeline struct {
	mu     sync.Mutex
	w      io.Writer
	start  time.Time
	missed map[int]bool // steps that were made while the client was disconnected
}

const (
	out  = "→"
	in   = "←"
	none = " " // nothing is on the wire
)

// newTimeline prints the title. column names the last column.
func newTimeline(w io.Writer, title, column string) *timeline {
	fmt.Fprintf(w, "%s\n\n seconds   %-54s%s\n", title, "what the client sees", column)
	return &timeline{w: w, start: time.Now(), missed: map[int]bool{}}
}

// print writes one line. The lock is held, so lines are in the order of their times.
func (t *timeline) print(mark, id, text string) {
	line := fmt.Sprintf("%8.3f %s %-54s%s", time.Since(t.start).Seconds(), mark, text, shorten(id))
	fmt.Fprintln(t.w, strings.TrimRight(line, " "))
}

func (t *timeline) line(mark, id, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.print(mark, id, text)
}

func (t *timeline) sent(what string)       { t.line(out, "", what) }
func (t *timeline) polled(cursor string)   { t.line(out, cursor, "GET, Last-Event-ID") }
func (t *timeline) answered(what string)   { t.line(in, "", what) }
func (t *timeline) result(id, text string) { t.line(in, id, "result: "+text) }

func (t *timeline) asked(task string)     { t.line(out, task, "POST tasks/get") }
func (t *timeline) task(id, state string) { t.line(in, id, state) }

func (t *timeline) primed(id string, retry time.Duration) {
	t.line(in, id, fmt.Sprintf("primed, retry %v", retry))
}

func (t *timeline) closed(retry time.Duration) {
	t.line(in, "", fmt.Sprintf("closed by the server, retry %v", retry))
}

func (t *timeline) waiting(d time.Duration) {
	t.line(none, "", fmt.Sprintf("  waiting %v with no connection", d))
}

// progress prints a progress event, and whether it waited in the log or was sent at once.
func (t *timeline) progress(id string, step, total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	how := "live"
	if t.missed[step] {
		how = "replayed"
	}
	t.print(in, id, fmt.Sprintf("progress %2d/%d  %s", step, total, how))
}

// away notes a step that was made while the client was disconnected.
func (t *timeline) away(step int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed[step] = true
	t.print(none, "", fmt.Sprintf("  tool: step %d while nobody was connected", step))
}

func (t *timeline) summary(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "\n%s\n", text)
}

// shorten abbreviates the long parts of an event id or a task id for the reader.
func shorten(id string) string {
	parts := strings.Split(id, ".")
	for i, p := range parts {
		if len(p) > 6 {
			parts[i] = p[:4] + "…"
		}
	}
	return strings.Join(parts, ".")
}
