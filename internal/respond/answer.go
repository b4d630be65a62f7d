package respond

import (
	"net/http"
	"sync"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// Answer is the response to one request, written by a handler behind a Relay: JSON, or a stream of events whose last one is the response.
// Safe for concurrent use.
type Answer struct {
	json, stream bool // what the client accepts

	mu    sync.Mutex // held while a message is written, so that they leave one after the other
	out   Writer
	begun bool // the head of a stream was sent
	ended bool
}

// NewAnswer makes the answer that is written to the w of a handler. json and stream say what the client accepts.
func NewAnswer(w http.ResponseWriter, json, stream bool) *Answer {
	return &Answer{json: json, stream: stream, out: New(w, 0)}
}

// Begin sends the head of a stream, so that the Relay can keep it alive. It does nothing if the client accepts no stream, or nothing can be
// flushed.
func (a *Answer) Begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended && a.stream && a.out.CanFlush() {
		a.begin()
		_ = a.out.flush() // a failure ends the request
	}
}

func (a *Answer) begin() {
	if !a.begun {
		a.begun = true
		a.out.Head()
		a.out.Begin()
	}
}

// Send sends a message before the response, as an event. It drops the message if the client accepts no stream. It returns false if the answer
// has ended or cannot be written.
func (a *Answer) Send(message []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
		return false
	case !a.stream:
		return true
	}
	a.begin()
	return a.out.Send(sse.AppendEvent(nil, nil, message)) == nil
}

// End sends the response and ends the answer. status is used if no stream has begun. It returns false under the conditions of Send.
func (a *Answer) End(status int, response []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.ended = true
	if a.begun || !a.json && a.stream && status == http.StatusOK {
		a.begin()
		return a.out.SendLast(sse.AppendEvent(nil, nil, response)) == nil
	}
	return a.out.JSON(status, response) == nil
}
