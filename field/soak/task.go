package main

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// task is the account of one task: what its client has seen of it, and what it may see next.
type task struct {
	c  *modernCall
	id string

	mu        sync.Mutex
	r         *rand.Rand
	createdAt string
	final     string // its status, once it has ended
	payload   uint64 // what was seen then
	reason    string // of a failure
	expired   bool   // it is not known any more
	ends      bool   // a cancellation was acknowledged
	cancels   bool   // one was sent
	left      bool   // the client does not come back, so it answers nothing
	contact   time.Time
	away      time.Duration // an upper bound on the longest time between two contacts with the server
	alive     time.Time     // when the newest request was sent that found the task running
	progress  int
	asked     map[string]bool // questions that are being answered
}

func newTask(c *modernCall, id string, sent time.Time) *task {
	return &task{
		c: c, id: id, r: rand.New(rand.NewPCG(c.r.Uint64(), 0)), contact: sent, alive: sent, asked: map[string]bool{}, //nolint:gosec // the same for the same seed
	}
}

// taskState is a task as the server shows it.
type taskState struct {
	ResultType string                  `json:"resultType"`
	TaskID     string                  `json:"taskId"`
	Status     string                  `json:"status"`
	Message    string                  `json:"statusMessage"`
	CreatedAt  string                  `json:"createdAt"`
	UpdatedAt  string                  `json:"lastUpdatedAt"`
	TTL        *int64                  `json:"ttlMs"`
	Poll       int64                   `json:"pollIntervalMs"`
	Result     json.RawMessage         `json:"result"`
	Failure    json.RawMessage         `json:"error"`
	Asks       map[string]inputRequest `json:"inputRequests"`
}

func (s *taskState) final() bool {
	return slices.Contains([]string{"completed", "failed", "cancelled"}, s.Status)
}

// sight says how a state was seen.
type sight struct {
	sent     time.Time // when it was asked for
	ended    bool      // by then the client knew that the task had ended
	progress int       // that the client knew by then
	creates  bool      // it is the answer to the call
	listens  bool      // it is a notification
}

// sight is what holds for what is asked for now.
func (t *task) sight() sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sight{sent: time.Now(), ended: t.final != "" || t.ends, progress: t.progress}
}

// contacted notes that the server has heard of the client since that time.
func (t *task) contacted(since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = t.longestAway()
	if since.After(t.contact) {
		t.contact = since
	}
}

// longestAway is an upper bound on the longest time between two contacts. t.mu is held.
func (t *task) longestAway() time.Duration { return max(t.away, time.Since(t.contact)) }

func (t *task) faultf(w *clientConn, format string, args ...any) {
	t.c.faultf(w, "task %s: %s", t.id, fmt.Sprintf(format, args...))
}

var taskSeed = maphash.MakeSeed()

// see checks a state. It returns the questions that nobody answers yet, with a number for each that is random.
func (t *task) see(w *clientConn, raw []byte, at sight) (asks map[string]inputRequest) {
	var s taskState
	if err := json.Unmarshal(raw, &s); err != nil {
		t.faultf(w, "%v: %s", err, raw)
		return nil
	}
	if fault := t.checkForm(&s, at); fault != "" {
		t.faultf(w, "%s: %s", fault, raw)
	}
	if !s.final() {
		return t.seeRunning(w, &s, raw, at)
	}
	sum := maphash.String(taskSeed, fmt.Sprint(s.Status, s.UpdatedAt, s.Message, string(s.Result), string(s.Failure)))
	fault := t.checkEnd(&s)
	t.mu.Lock()
	switch {
	case t.final == "":
		t.final, t.payload = s.Status, sum
	case t.payload != sum:
		fault = "it had ended as " + t.final + ", and has changed"
	}
	t.mu.Unlock()
	if fault != "" {
		t.faultf(w, "%s: %s", fault, raw)
	}
	return nil
}

// checkForm returns what is wrong with the form of a state.
func (t *task) checkForm(s *taskState, at sight) string {
	t.mu.Lock()
	if t.createdAt == "" {
		t.createdAt = s.CreatedAt
	}
	created := t.createdAt
	t.mu.Unlock()
	kind := "complete"
	switch {
	case at.creates:
		kind = "task"
	case at.listens:
		kind = ""
	}
	details := s.Result != nil || s.Failure != nil || s.Asks != nil
	switch {
	case s.TaskID != t.id:
		return "another task"
	case s.ResultType != kind:
		return "resultType"
	case s.CreatedAt == "" || s.CreatedAt != created || s.UpdatedAt < s.CreatedAt:
		return "its times"
	case s.TTL == nil || *s.TTL < t.c.m.job.Retain.Milliseconds():
		return "it is kept for too short a time"
	case s.Poll != pollInterval.Milliseconds():
		return "the poll interval"
	case at.creates && details, (s.Result != nil) != (s.Status == "completed" && !at.creates), (s.Failure != nil) != (s.Status == "failed" && !at.creates),
		(len(s.Asks) > 0) != (s.Status == "input_required" && !at.creates):
		return "its details are not those of its status"
	}
	return ""
}

// seeRunning takes the state of a task that has not ended.
func (t *task) seeRunning(w *clientConn, s *taskState, raw []byte, at sight) map[string]inputRequest {
	if s.Status != "working" && s.Status != "input_required" {
		t.faultf(w, "no such status: %s", raw)
	}
	if at.ended {
		t.faultf(w, "it had ended, and runs again: %s", raw)
	}
	n := 0
	if s.Message != "" {
		var err error
		if n, err = strconv.Atoi(s.Message); err != nil || n < at.progress || n > t.c.perform.Events {
			t.faultf(w, "progress after %d of %d: %s", at.progress, t.c.perform.Events, raw)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress = max(t.progress, n)
	if at.sent.After(t.alive) {
		t.alive = at.sent
	}
	asks := map[string]inputRequest{}
	for key, ask := range s.Asks {
		if !t.asked[key] {
			t.asked[key] = true
			asks[key] = ask
		}
	}
	return asks
}

// checkEnd returns what is wrong with how a task has ended. Each end needs an explanation.
func (t *task) checkEnd(s *taskState) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch s.Status {
	case "completed":
		return t.c.checkResult(s.Result, false)
	case "cancelled":
		if !t.cancels {
			return "nobody has cancelled it"
		}
	case "failed":
		var failure struct {
			Data struct {
				Reason string `json:"reason"`
			} `json:"data"`
		}
		_ = json.Unmarshal(s.Failure, &failure) // without a reason it is a fault
		t.reason = failure.Data.Reason
		if away := t.longestAway(); t.reason != "abandoned" || away < t.c.m.job.Abandon {
			return fmt.Sprintf("it has failed, away for %v", away)
		}
	}
	return ""
}

// unknown takes the answer that there is no such task. It must have expired.
func (t *task) unknown(a *modernAnswer) {
	t.mu.Lock()
	t.expired = true
	since := time.Since(t.alive)
	t.mu.Unlock()
	if since < t.c.m.job.Retain {
		t.faultf(a.conn, "it is unknown %v after it ran: %s", since, a.raw)
	}
}

// isUnknown reports whether an answer says that there is no such task.
func (a *modernAnswer) isUnknown() bool {
	return a.err == nil && a.status == http.StatusBadRequest && a.Error != nil && a.Error.Code == -32602
}

// over reports whether nothing can change any more.
func (t *task) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.final != "" || t.expired
}

// account counts how the task has ended, for its client.
func (t *task) account() {
	t.mu.Lock()
	how := t.final
	switch {
	case how == "failed":
		how = "failed: " + t.reason
	case how != "":
	case t.c.m.gone.Load():
		how = "given up with the client"
	case t.expired:
		how = "expired"
	case t.left:
		how = "left by its client"
	default:
		how = "faults"
	}
	t.mu.Unlock()
	t.c.m.ledger.count("tasks: " + how)
	t.c.end("became tasks")
}
