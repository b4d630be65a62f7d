package sse

import (
	"errors"
	"time"
)

// MaxRetry is the largest Event.Retry. A larger retry field is read as MaxRetry.
// A century means "never", and it can be doubled without overflow.
const MaxRetry = 100 * 365 * 24 * time.Hour

// ErrTooLarge is returned by Reader.Next if an event is larger than the limit.
var ErrTooLarge = errors.New("sse: event too large")

// Event is one block of a stream as a client sees it. The caller owns it; the
// Reader keeps no reference to Data.
type Event struct {
	// ID is the id field of this block. It is valid only if HasID is set. An
	// empty ID with HasID clears the client's cursor.
	ID    string
	HasID bool

	// Name is the event field. Empty means the default, "message".
	Name string

	// Data is the data lines, joined by \n. HasData tells a block with an empty
	// data line (Data is empty, not nil) from one without data lines (Data is
	// nil).
	Data    []byte
	HasData bool

	// Retry is the time to wait before a reconnect, from 0 to MaxRetry. It is
	// negative if the block had no retry field.
	Retry time.Duration
}
