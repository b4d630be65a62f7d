package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// modernCall is one call of the modern era, from the request to its end.
type modernCall struct {
	m        *modern
	r        *rand.Rand
	name     string
	declares bool // the client takes a task in place of the result
	perform  toolArgs
	survey   surveyArgs // if Rounds is not 0
	answers  attempts
	next     int // the number of the next event
}

func newModernCall(m *modern, k int) *modernCall {
	r := rand.New(rand.NewPCG(m.r.Uint64(), uint64(k))) //nolint:gosec // the same for the same seed
	c := &modernCall{m: m, r: r, name: fmt.Sprintf("%s/%d", m.name, k), declares: r.IntN(5) > 0}
	c.answers.all = map[string]*attempt{}
	seed := r.Uint64() >> 11 // go-sdk decodes numbers of arguments as float64
	longest := int(m.job.Longest.Milliseconds())
	fill := 0
	switch r.IntN(8) {
	case 0:
		fill = r.IntN(100_000)
	case 1, 2:
		fill = r.IntN(3000)
	}
	if r.IntN(4) == 0 {
		c.survey = surveyArgs{Call: c.name, Seed: seed, Rounds: 1 + r.IntN(3), Keys: 1 + r.IntN(3), For: 1 + r.IntN(min(2000, longest)), Fill: fill}
		return c
	}
	c.perform = toolArgs{Call: c.name, Seed: seed, For: 1 + r.IntN(min(4000, longest)), Fill: fill, Modern: true}
	switch r.IntN(8) {
	case 0: // fast and without events
		c.perform.For = 1 + r.IntN(20)
		return c
	case 1:
		c.perform.For = 1 + r.IntN(longest)
	}
	c.perform.Events = 1 + r.IntN(20)
	c.perform.Closes = [...]int{0, 5, 15, 40}[r.IntN(4)]
	if r.IntN(4) == 0 {
		c.perform.Pad = 8000
	}
	if c.declares && r.IntN(4) == 0 {
		c.perform.Asks = 1 + r.IntN(2)
	}
	return c
}

func about(r *rand.Rand) time.Duration { return time.Duration(1+r.IntN(3000)) * time.Millisecond }

// longest is how long the call may take if its client does what it can.
func (c *modernCall) longest() time.Duration {
	ms := c.perform.For + (c.survey.Rounds+1)*c.survey.For
	return time.Duration(2*ms)*time.Millisecond + time.Duration(c.perform.Asks)*patience + 2*c.m.job.Abandon + 2*c.m.job.Retain + 2*maxSilence
}

func (c *modernCall) faultf(w *clientConn, format string, args ...any) {
	if !c.m.gone.Load() {
		c.m.faultf(w, "modern call "+c.name, format, args...)
	}
}

// end counts how the call has ended, once.
func (c *modernCall) end(how string) { c.m.ledger.count("modern calls: " + how) }

// run makes the call, with more rounds if the tool asks in its result, and follows the task that it becomes.
func (c *modernCall) run(ctx context.Context) {
	c.m.ledger.count("modern calls")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hung := time.AfterFunc(c.longest(), func() {
		c.faultf(nil, "it has not ended after %v", c.longest())
		cancel()
	})
	defer hung.Stop()
	var more map[string]any // of the request, after a round of questions
	for {
		q, tool := c.request(more)
		sent := time.Now()
		var a modernAnswer
		var last []byte
		answers := 0
		a.err = c.m.exchange(ctx, c.r, q, true, &a, func(data []byte) {
			if c.event(a.conn, q.id, data) {
				last = data
				answers++
			}
		})
		switch {
		case c.m.gone.Load():
			c.end("given up with the client")
			return
		case errors.Is(a.err, errCut):
			c.end("cut before the answer")
			return
		case a.err != nil, answers != 1:
			c.faultf(a.conn, "%s: status %d, %d answers, %v", tool, a.status, answers, a.err)
			c.end("faults")
			return
		}
		c.m.noteContact()
		if more = c.answer(ctx, &a, last, sent); more == nil {
			return
		}
	}
}

// request makes the request of the call. more has what is added after a round of questions.
func (c *modernCall) request(more map[string]any) (modernRequest, string) {
	tool, args := "perform", any(&c.perform)
	if c.survey.Rounds > 0 {
		tool, args = "survey", &c.survey
	}
	params := map[string]any{"name": tool, "arguments": args}
	maps.Copy(params, more)
	c.next = 0
	q := c.m.request("tools/call", tool, params, c.declares)
	q.head["Soak-Task-After"] = [...]string{"20ms", "100ms", "500ms", "2s", "10s"}[c.r.IntN(5)]
	switch c.r.IntN(8) {
	case 0:
		q.head["Accept"] = "text/event-stream"
	case 1:
		q.head["Mcp-Name"] = "=?base64?" + base64(tool) + "?="
	}
	if c.m.site.App == "go-sdk" { // its own handler wants both types, and does not decode the name
		q.head["Accept"], q.head["Mcp-Name"] = "application/json, text/event-stream", tool
	}
	return q, tool
}

// event checks a notification before the answer. It reports whether data is not one.
func (c *modernCall) event(w *clientConn, id int64, data []byte) (answer bool) {
	m, _ := parse(data) // the answer may have a result of another form
	switch {
	case m.Method == "notifications/progress" && m.Params.ProgressToken == c.m.token(id):
		c.number(w, int(m.Params.Progress)-1, data)
	case m.Method == "notifications/message" && m.Params.Logger == "call" && m.Params.Data.Call == c.name:
		c.number(w, m.Params.Data.N, data)
	case m.Method == "" && string(m.ID) == strconv.FormatInt(id, 10):
		return true
	default:
		c.faultf(w, "what is this? %s", data)
	}
	return false
}

func (c *modernCall) number(w *clientConn, n int, data []byte) {
	c.m.ledger.count("modern events")
	if n != c.next {
		c.faultf(w, "event %d where %d was due: %s", n, c.next, data)
	}
	c.next = n + 1
}

// answer takes the answer to the call. It returns what the next round adds to the request; nil: the call has ended.
func (c *modernCall) answer(ctx context.Context, a *modernAnswer, data []byte, sent time.Time) map[string]any {
	var got struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	var kind struct {
		Type    string                  `json:"resultType"`
		State   string                  `json:"requestState"`
		Asks    map[string]inputRequest `json:"inputRequests"`
		TaskID  string                  `json:"taskId"`
		Unknown json.RawMessage         `json:"task"`
	}
	err := json.Unmarshal(data, &got)
	if err == nil {
		err = json.Unmarshal(got.Result, &kind)
	}
	switch {
	case err != nil || a.status != http.StatusOK || got.Error != nil:
		c.faultf(a.conn, "status %d, %v: %s", a.status, err, data)
		c.end("faults")
	case kind.Type == "complete":
		c.end("completed at once")
		if fault := c.checkResult(got.Result, true); fault != "" {
			c.faultf(a.conn, "%s: %s", fault, data)
		}
	case kind.Type == "input_required" && c.survey.Rounds > 0 && c.m.isStopping():
		c.end("given up when asked")
	case kind.Type == "input_required" && c.survey.Rounds > 0:
		c.m.ledger.count("modern rounds without a task")
		more := map[string]any{"requestState": kind.State}
		said := map[string]any{}
		for key, ask := range kind.Asks {
			said[key] = c.answers.give(c.r, c.question(ask))
		}
		more["inputResponses"] = said
		c.m.wait(time.Duration(c.r.IntN(1000)) * time.Millisecond)
		return more
	case kind.Type == "task" && c.declares && kind.TaskID != "":
		t := newTask(c, kind.TaskID, sent)
		t.see(a.conn, got.Result, sight{sent: sent, creates: true})
		t.follow(ctx)
	default:
		c.faultf(a.conn, "an answer of the wrong kind: %s", data)
		c.end("faults")
	}
	return nil
}

// question is the name that the tool has given to a question of it.
func (c *modernCall) question(ask inputRequest) string {
	name, _, _ := strings.Cut(ask.Params.Message, " ")
	return name
}

// checkResult returns what is wrong with the result of the call. whole: all events must have come.
func (c *modernCall) checkResult(raw []byte, whole bool) (fault string) {
	var result struct {
		Type    string `json:"resultType"`
		IsError bool   `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	var out outcome
	err := json.Unmarshal(raw, &result)
	if err == nil && len(result.Content) == 1 {
		err = json.Unmarshal([]byte(result.Content[0].Text), &out)
	}
	want, seed, fill := c.perform.Events, c.perform.Seed, c.perform.Fill
	if c.survey.Rounds > 0 {
		want, seed, fill = c.survey.Rounds, c.survey.Seed, c.survey.Fill
	}
	switch {
	case err != nil:
		return err.Error()
	case result.Type != "complete" || result.IsError || len(result.Content) != 1:
		return "not a result of the tool"
	case out.Call != c.name:
		return "the result of another call"
	case out.Failed != "":
		return "the tool could not send, or was not told all"
	case out.Sent != want || out.Filling != filling(seed, fill):
		return "not what the tool returns"
	case whole && c.survey.Rounds == 0 && c.next != want:
		return fmt.Sprintf("%d of %d events have come", c.next, want)
	case c.survey.Rounds > 0:
		return c.answers.check(out.Answers, c.survey.Rounds*c.survey.Keys)
	}
	return c.answers.checkAsked(c.m, out.Answers)
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
