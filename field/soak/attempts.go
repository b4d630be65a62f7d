package main

import (
	b64 "encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// inputRequest is a question as clients see it.
type inputRequest struct {
	Method string `json:"method"`
	Params struct {
		Message string `json:"message"`
	} `json:"params"`
}

// attempts are the answers that a client has given to the questions of one call, by the names of the questions.
type attempts struct {
	mu    sync.Mutex
	n     int
	all   map[string]*attempt
	taken []string // answers to questions with a deadline that the server took early enough, see margin
}

// attempt is what a client has said to one question, in this order.
type attempt struct {
	said  []string
	known int // so many of them had been sent when the server acknowledged one: no later one counts; 0: none was acknowledged
}

// give makes an answer to a question, other than all before.
func (a *attempts) give(r *rand.Rand, question string) map[string]any {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	answer := map[string]any{"action": "accept", "content": map[string]any{"answer": fmt.Sprint("answer ", a.n)}}
	if r.IntN(5) == 0 {
		answer = map[string]any{"action": "decline"}
	}
	if a.all[question] == nil {
		a.all[question] = &attempt{}
	}
	a.all[question].said = append(a.all[question].said, said(fmt.Sprint(answer["action"]), answer["content"]))
	return answer
}

// acknowledged says that the server has acknowledged the newest answer to a question.
func (a *attempts) acknowledged(question string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.all[question]; t != nil && t.known == 0 {
		t.known = len(t.said)
	}
}

// isKnown reports whether the server has acknowledged an answer to a question.
func (a *attempts) isKnown(question string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[question] != nil && a.all[question].known > 0
}

// took notes an answer that must reach its tool.
func (a *attempts) took(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken = append(a.taken, what)
}

// check returns what is wrong with the answers that a survey reports, of which there must be n.
func (a *attempts) check(reported []string, n int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := map[string]bool{}
	for _, r := range reported {
		question, answer, _ := strings.Cut(r, "=")
		t := a.all[question]
		if t == nil || seen[question] {
			return "the answer " + r + " was not given, or twice"
		}
		seen[question] = true
		possible := t.said
		if t.known > 0 {
			possible = possible[:t.known]
		}
		found := false
		for _, s := range possible {
			found = found || s == answer
		}
		if !found {
			return fmt.Sprintf("the tool was told %s, and the client has said %q", r, possible)
		}
	}
	if len(reported) != n {
		return fmt.Sprintf("%d answers of %d", len(reported), n)
	}
	return ""
}

// checkAsked returns what is wrong with the answers that a tool reports that has asked by its Handle.
func (a *attempts) checkAsked(m *modern, reported []string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	had := 0
	for _, s := range reported {
		kind, _, _ := strings.Cut(s, ":")
		m.ledger.count("tools of tasks told: " + kind)
		if kind == "error" {
			return "the question failed: " + s
		}
		if kind != "none" { // "stalled" may have been an answer
			had++
		}
	}
	if had < len(a.taken) {
		return fmt.Sprintf("answers were taken in time, %q, and the tool has had %d", a.taken, had)
	}
	return ""
}

func base64(s string) string { return b64.StdEncoding.EncodeToString([]byte(s)) }
