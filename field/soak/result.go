package main

import (
	"encoding/json"
	"fmt"
)

// message is any JSON-RPC message of these servers.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProgressToken string  `json:"progressToken"`
		Progress      float64 `json:"progress"`
		Logger        string  `json:"logger"`
		Message       string  `json:"message"`
		Data          struct {
			Call string `json:"call"`
			N    int    `json:"n"`
		} `json:"data"`
	} `json:"params"`
	Result struct {
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Reason string `json:"reason"`
		} `json:"data"`
	} `json:"error"`
}

func parse(data []byte) (m message, err error) {
	err = json.Unmarshal(data, &m)
	return m, err
}

// result checks the response. c.mu is held.
func (c *call) result(w *wire, m message, data []byte) {
	if m.Error != nil {
		c.failure(w, m, data)
		return
	}
	var out outcome
	if len(m.Result.Content) == 1 {
		_ = json.Unmarshal([]byte(m.Result.Content[0].Text), &out) // then it is not what it must be
	}
	switch {
	case m.Result.IsError && c.cancelled.Load():
		c.s.ledger.count("cancelled, and answered")
	case m.Result.IsError || out.Call != c.name || out.Failed != "":
		c.faultf(w, "the result: %s", data)
	case out.Sent != c.part.Events || c.next != out.Sent:
		c.faultf(w, "of %d events %d were sent, and %d have come: %s", c.part.Events, out.Sent, c.next, data)
	default:
		c.s.ledger.count("completed")
		c.checkAnswers(w, out)
		c.s.listen.expect(c.name, out.Asides, out.Late)
	}
}

// failure is a JSON-RPC error in place of the result. The documented ones have a reason, and that must be so.
func (c *call) failure(w *wire, m message, data []byte) {
	// What the server wrote last the client may have read later, on a machine that is busy, and it counts from then.
	away := c.longestAway()
	away += away / 8
	reason := m.Error.Data.Reason
	c.track.mu.Lock()
	c.track.dead = true // it may never have been in the log
	c.track.mu.Unlock()
	switch {
	case c.cancelled.Load(), c.s.gone.Load():
		c.s.ledger.count("cancelled, and answered")
	case reason == "abandoned" && away >= c.s.job.Abandon, reason == "expired" && away >= c.s.job.Retain:
		c.s.ledger.count("lost: " + reason)
	case reason == "expired" && c.doomed:
		c.s.ledger.count("lost: the first connection was cut at its first id")
	default:
		c.faultf(w, "%s, away for %v, %d events: %s", fmt.Sprintf("error %q", reason), away, c.next, data)
	}
}
