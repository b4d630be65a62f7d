package main

import (
	"encoding/json"
	"fmt"
)

// message is any JSON-RPC message of the servers.
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

// result checks the response of the call. c.mu is held.
func (c *call) result(w *clientConn, m message, data []byte) {
	if m.Error != nil {
		c.failure(w, m, data)
		return
	}
	var out outcome
	if len(m.Result.Content) == 1 {
		_ = json.Unmarshal([]byte(m.Result.Content[0].Text), &out) // if it fails, out is not as expected
	}
	switch {
	case m.Result.IsError && c.cancelled.Load():
		c.s.ledger.count("cancelled, and answered")
	case m.Result.IsError || out.Call != c.name || out.Failed != "":
		c.faultf(w, "the result: %s", data)
	case out.Sent != c.args.Events || c.next != out.Sent:
		c.faultf(w, "of %d events %d were sent, and %d have come: %s", c.args.Events, out.Sent, c.next, data)
	default:
		c.s.ledger.count("completed")
		c.checkAnswers(w, out)
		c.s.listen.expect(c.name, out.Standalone, out.Late)
	}
}

// failure checks a JSON-RPC error in place of the result. It must have a documented reason, which must be true.
func (c *call) failure(w *clientConn, m message, data []byte) {
	// The server counts from its last write, which a busy client may have read later.
	away := c.longestAway()
	away += away / 8
	reason := m.Error.Data.Reason
	c.track.mu.Lock()
	c.track.dead = true // the error may not have been in the log
	c.track.mu.Unlock()
	switch {
	case c.cancelled.Load(), c.s.gone.Load():
		c.s.ledger.count("cancelled, and answered")
	case reason == "abandoned" && away >= c.s.job.Abandon, reason == "expired" && away >= c.s.job.Retain:
		c.s.ledger.count("lost: " + reason)
	case reason == "expired" && c.mayHaveNoID:
		c.s.ledger.count("lost: the first connection was cut at its first id")
	default:
		c.faultf(w, "%s, away for %v, %d events: %s", fmt.Sprintf("error %q", reason), away, c.next, data)
	}
}
