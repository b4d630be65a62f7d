// Package timeline prints what happens in an example, one event a line, with the seconds since its start.
package timeline

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Marks of lines.
const (
	Out  = "→" // the client sends
	In   = "←" // the client receives
	None = " " // nothing is on the client's wire
)

// Timeline prints to one writer. Its methods may be called from any goroutine.
type Timeline struct {
	mu    sync.Mutex
	w     io.Writer
	start time.Time
}

// New prints the title, and the heads of the columns. column names the last one.
func New(w io.Writer, title, column string) *Timeline {
	fmt.Fprintf(w, "%s\n\n seconds   %-54s%s\n", title, "what the client sees", column)
	return &Timeline{w: w, start: time.Now()}
}

// Line prints one event. last is for the last column. Lines are in the order of their times.
func (t *Timeline) Line(mark, last, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := fmt.Sprintf("%8.3f %s %-54s%s", time.Since(t.start).Seconds(), mark, text, last)
	fmt.Fprintln(t.w, strings.TrimRight(line, " "))
}

// Text prints a text between lines, after an empty one.
func (t *Timeline) Text(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "\n%s\n", text)
}

// Shorten abbreviates the long parts of an event id or a task id for the reader.
func Shorten(id string) string {
	parts := strings.Split(id, ".")
	for i, p := range parts {
		if len(p) > 6 {
			parts[i] = p[:4] + "…"
		}
	}
	return strings.Join(parts, ".")
}
