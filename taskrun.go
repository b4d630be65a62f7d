package rejoin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// taskRun is one run of the app's handler for a task.
type taskRun struct {
	*taskCall

	returned func()
	answered atomic.Bool // the response has come
}

// receive gets a message that the handler has written.
func (r *taskRun) receive(raw []byte) {
	m, err := jsonrpc.Parse(raw, maxJSONDepth)
	switch {
	case err != nil:
	case m.Kind == jsonrpc.Notification:
		if string(m.Method) == "notifications/progress" {
			r.made().Note(progressOf(m.Params))
		} // a task has no place for others (tasks, "progress and logging")
	case m.Kind == jsonrpc.Request, r.answered.Swap(true):
	case m.Kind == jsonrpc.Failure:
		message, _ := jsonrpc.Field(m.Err, "message")
		text, _ := jsonrpc.Unquote(message)
		r.made().End(core.TaskFailed, shorten(text), m.Raw)
	default:
		r.result(&m)
	}
}

// result takes the result of the call, which may be questions.
func (r *taskRun) result(m *jsonrpc.Message) {
	kind, _ := jsonrpc.Field(m.Result, "resultType")
	switch name, _ := jsonrpc.Unquote(kind); name {
	case "input_required":
		r.ask(m.Result)
	case "task": // of an app that makes tasks itself, in answer to a call that is one
		r.call.srv.log.Error("rejoin: the app has answered a call that is a task with a task of its own", "method", r.call.method)
		r.fail(Errorf(CodeInternal, "internal error"))
	default:
		r.made().End(core.TaskCompleted, "", m.Raw)
	}
}

// end is called when the handler has ended.
func (r *taskRun) end(what any, stack string) {
	r.returned()
	if what != nil && what != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it; this is how a handler gives up
		r.call.srv.logPanic("the handler of modern requests", what, stack)
	}
	if r.answered.CompareAndSwap(false, true) { // a task that has ended stays as it is
		if what == nil && !r.made().Final() {
			r.call.srv.log.Error("rejoin: the app has not answered a call", "method", r.call.method)
		}
		r.fail(Errorf(CodeInternal, "internal error"))
	}
	if r.made().Final() {
		r.cancel(nil)
	}
}

// ask asks what the handler has returned as questions, and runs it again when all are answered. Each key is used once in a task, so they are
// named by their round (tasks, "input requests"). A result with a requestState alone asks for nothing but to be called again later.
func (r *taskRun) ask(result []byte) {
	var asks struct {
		Requests map[string]json.RawMessage `json:"inputRequests"`
		State    json.RawMessage            `json:"requestState"`
	}
	err := json.Unmarshal(result, &asks)
	r.state = slices.Clone(asks.State)
	if string(r.state) == "null" {
		r.state = nil
	}
	switch {
	case err != nil, len(asks.Requests) == 0 && r.state == nil:
		r.call.srv.log.Error("rejoin: the app has asked for input without a question", "method", r.call.method, "error", err)
		r.fail(Errorf(CodeInternal, "internal error"))
		return
	case len(asks.Requests) == 0:
		time.AfterFunc(r.call.srv.cfg.Tasks.PollInterval, func() {
			if r.call.ctx.Err() == nil { // the task has not ended meanwhile
				r.runAgain(nil)
			}
		})
		return
	}
	r.rounds++
	questions := make([]*engine.TaskQuestion, 0, len(asks.Requests))
	for key, request := range asks.Requests {
		if e := r.call.checkOffered(request); e != nil {
			r.call.srv.log.Error("rejoin: the app has asked what cannot be asked", "method", r.call.method, "error", e)
			r.fail(e)
			return
		}
		questions = append(questions, &engine.TaskQuestion{Key: roundKey(r.rounds, key), Request: request, Round: r.rounds})
	}
	slices.SortFunc(questions, func(a, b *engine.TaskQuestion) int { return strings.Compare(a.Key, b.Key) })
	r.made().Ask(questions)
}

// roundKey is the key that the client gets for a question of the app.
func roundKey(round uint32, key string) string {
	return "r" + strconv.FormatUint(uint64(round), 10) + "." + key
}

// ownKey is the key that the app has given to a question.
func ownKey(key string) string {
	_, own, _ := strings.Cut(key, ".")
	return own
}

// withAnswers returns the body of a call with what the client adds when it calls again.
func withAnswers(body []byte, answers map[string]json.RawMessage, state json.RawMessage) ([]byte, error) {
	return changeParams(body, func(params map[string]json.RawMessage) (err error) {
		delete(params, "inputResponses")
		delete(params, "requestState")
		if len(answers) > 0 {
			params["inputResponses"], err = json.Marshal(answers)
		}
		if state != nil {
			params["requestState"] = state
		}
		return err
	})
}

// progressOf is the statusMessage for a progress notification.
func progressOf(params []byte) string {
	var p struct {
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	_ = json.Unmarshal(params, &p) // what is missing stays empty
	return progressText(p.Progress, p.Total, p.Message)
}

// progressText is the statusMessage for a progress: the message, or without one its numbers. A task has no other place for these.
func progressText(done, total float64, message string) string {
	switch {
	case message != "":
		return shortenTo(message, maxStatusMessage)
	case total != 0:
		return string(appendNumber(append(appendNumber(nil, done), " of "...), total))
	}
	return string(appendNumber(nil, done))
}

const maxStatusMessage = 1 << 10 // bytes; the tasks of a server keep as many as there are tasks
