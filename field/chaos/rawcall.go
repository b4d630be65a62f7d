//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// call makes a call, and polls until it has ended.
func (g *rawGuest) call(ctx context.Context, r *record) {
	g.ids++
	id := g.ids
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{
		"name": "work", "arguments": &r.Work, "_meta": map[string]any{"progressToken": r.Name},
	}})
	if err != nil {
		panic(err)
	}
	s := newStream(r, func(data []byte) { g.message(r, fmt.Sprint(id), data) })
	answer, err := g.send(ctx, http.MethodPost, "", body)
	switch {
	case err != nil:
		r.end(noID, err.Error())
		return
	case answer.streams():
		s.begin("", answer.Header.Get(frontHeader))
		wait := g.read(answer, s, g.random, r.isOver)
		if !r.isOver() && pause(ctx, wait) == nil {
			g.follow(ctx, r, s)
		}
		g.replay(ctx, r, s)
		return
	}
	text, err := answer.text()
	switch status := answer.StatusCode; {
	case err != nil:
		r.end(noID, err.Error())
	case status == http.StatusOK:
		g.message(r, fmt.Sprint(id), []byte(text))
	case status == http.StatusNotFound:
		r.end(gone, text)
	case status == http.StatusServiceUnavailable:
		r.end(refusedBy, text)
		_ = pause(ctx, answer.retryAfter())
	default:
		r.end(noID, fmt.Sprintf("status %d: %s", status, text))
	}
}

// follow polls until the call has ended.
func (g *rawGuest) follow(ctx context.Context, r *record, s *stream) {
	for !r.isOver() && ctx.Err() == nil {
		back := 0
		if !g.calm && g.random.IntN(4) == 0 {
			back = 1 + g.random.IntN(5)
		}
		cursor := s.cursor(back)
		if cursor == "" {
			r.end(noID, "the connection ended before an id")
			return
		}
		wait := 100 * time.Millisecond
		answer, err := g.send(ctx, http.MethodGet, cursor, nil)
		switch {
		case err != nil:
		case answer.streams():
			s.begin(cursor, answer.Header.Get(frontHeader))
			wait = g.read(answer, s, g.random, r.isOver)
		default:
			text, _ := answer.text()
			wait = answer.retryAfter()
			switch status := answer.StatusCode; {
			case status == http.StatusNotFound:
				r.end(gone, text)
			case status < http.StatusInternalServerError:
				r.end(vanished, fmt.Sprintf("status %d to %s: %s", status, cursor, text))
			}
		}
		if !r.isOver() {
			_ = pause(ctx, wait) // the loop asks
		}
	}
}

// replay asks once more for what has come of a call that has ended: it must come again, under the same ids.
func (g *rawGuest) replay(ctx context.Context, r *record, s *stream) {
	if r.Outcome != answered || g.calm || len(s.ids) == 0 || g.random.IntN(3) > 0 {
		return
	}
	cursor := s.cursor(len(s.ids))
	answer, err := g.send(ctx, http.MethodGet, cursor, nil)
	if err != nil {
		return
	}
	if !answer.streams() {
		_, _ = answer.text()
		return
	}
	s.begin(cursor, answer.Header.Get(frontHeader))
	g.read(answer, s, g.random, func() bool { return false })
}

// message takes a message of a call that has not come before.
func (g *rawGuest) message(r *record, id string, data []byte) {
	var m rpc
	if err := json.Unmarshal(data, &m); err != nil {
		r.faulty(foreign, fmt.Sprintf("%s got %q", r.Name, data))
		return
	}
	switch {
	case m.Method == "notifications/progress":
		r.event(m.Params.Message)
	case m.Method != "" || string(m.ID) != id:
		r.faulty(foreign, fmt.Sprintf("%s got %s", r.Name, data))
	case m.Error != nil && m.Error.Data.Reason == "expired":
		r.faulty(lost, r.Name+": "+string(data))
		r.end(failed, m.Error.why())
	case m.Error != nil:
		r.end(failed, m.Error.why())
	default:
		var result struct {
			Content []textContent `json:"content"`
			IsError bool          `json:"isError"`
		}
		if json.Unmarshal(m.Result, &result) != nil || len(result.Content) != 1 {
			r.faulty(foreign, fmt.Sprintf("%s got %s", r.Name, data))
			return
		}
		r.answer(result.Content[0].Text, result.IsError)
	}
}

// textContent is a part of a result.
type textContent struct {
	Text string `json:"text"`
}

// answer takes a result: an SDK's server makes one of a tool's error, too.
func (r *record) answer(text string, isError bool) {
	if isError {
		r.end(failed, "tool: "+text)
		return
	}
	r.result(text)
}
