package core

import "time"

// TaskEnding is how a task has ended, for the process that takes it over.
type TaskEnding struct {
	Status TaskStatus // a final one
	// Message is shown.
	Message string
	// Replaced says that an error was made in place of the result.
	Replaced       bool
	Updated, Ended time.Time
}

// Ending returns how the task has ended. Not ok: it has not.
func (t *Task) Ending() (at TaskEnding, ok bool) {
	if t.dropped || !t.status.Final() {
		return at, false
	}
	return TaskEnding{t.status, t.message, t.replaced, t.base.Add(t.updated), t.base.Add(t.ended)}, true
}

// RestoreTask returns a task that has ended in another process, which was made at created by the clock there.
func RestoreTask(cfg TaskConfig, created time.Time, at TaskEnding) Task {
	t := NewTask(cfg, created)
	t.status, t.message, t.replaced = at.Status, at.Message, at.Replaced
	t.updated, t.ended = max(at.Updated.Sub(created), 0), max(at.Ended.Sub(created), 0)
	t.now, t.seen = max(t.updated, t.ended), t.ended
	return t
}
