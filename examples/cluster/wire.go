package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/client"
	"github.com/rejoin-mcp/rejoin/examples/internal/timeline"
)

// wire sends the client's requests, and prints them with their ways.
type wire struct {
	see   *timeline.Timeline
	watch *watch
	next  http.RoundTripper

	requests   atomic.Int64
	polledAfar atomic.Int64 // polls that came to another process than the owner
	waited     atomic.Int64 // how long the client has waited for its next poll, a time.Duration
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	id := strconv.FormatInt(w.requests.Add(1), 10)
	r = r.Clone(r.Context())
	r.Header.Set(requestID, id)
	if waited := time.Duration(w.waited.Swap(0)); waited > 0 {
		w.see.Line(timeline.None, "", fmt.Sprintf("  had no connection for %v", waited.Round(time.Millisecond)))
	}
	w.see.Line(timeline.Out, "", describe(r))
	res, err := w.next.RoundTrip(r)
	way, forwarded := w.watch.way(id)
	if err != nil {
		w.see.Line(timeline.In, way, "no answer")
		return nil, err
	}
	if r.Method == http.MethodGet && forwarded {
		w.polledAfar.Add(1)
	}
	w.see.Line(timeline.In, way, strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get("Content-Type"))))
	return res, nil
}

// describe says what a request is for.
func describe(r *http.Request) string {
	switch r.Method {
	case http.MethodGet:
		return "GET, Last-Event-ID " + timeline.Shorten(r.Header.Get("Last-Event-ID"))
	case http.MethodDelete:
		return "DELETE, the session ends"
	}
	var message struct {
		Method string `json:"method"`
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if body, err := r.GetBody(); err == nil {
		text, _ := io.ReadAll(body)        // it is in memory
		_ = json.Unmarshal(text, &message) // of the client's own
	}
	return strings.TrimSpace(fmt.Sprintf("POST %s %s %s", message.Method, message.Params.Name, message.Params.Arguments))
}

// trace notes how long the client waits. What comes is printed by who reads it, so the wait is printed when it is over.
func (w *wire) trace(e client.TraceEvent) {
	if e.Kind == client.TraceWait {
		w.waited.Store(int64(e.Wait))
	}
}
