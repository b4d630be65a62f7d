package rejoin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// canBecomeTask reports whether a tools/call can become a task, or returns why it is refused.
func (srv *Server) canBecomeTask(r *http.Request, m *jsonrpc.Message) (bool, *refusal) {
	switch {
	case srv.tasks == nil:
		return false, nil
	case declaresTasks(m):
		return srv.ownsTasks(r, m), nil
	case srv.cfg.Tasks.Required == nil:
		return false, nil
	}
	if name := targetName(m); srv.cfg.Tasks.Required(name) && checkModernMeta(srv, r.Header, m) == nil && srv.ownsTasks(r, m) {
		return false, refuseUndeclared("the tool " + shorten(name))
	}
	return false, nil
}

// hasOldTask reports whether a tools/call asks for a task as older versions do, which has no effect now (tasks, "compatibility"). An app that
// still has those tasks would answer with one that the client cannot ask for.
func (srv *Server) hasOldTask(r *http.Request, m *jsonrpc.Message) bool {
	_, has := jsonrpc.Field(m.Params, "task")
	return has && srv.tasks != nil && srv.ownsTasks(r, m)
}

// withoutTask returns the body of a call without the task of older versions.
func withoutTask(body []byte) []byte {
	changed, err := changeParams(body, func(params map[string]json.RawMessage) error {
		delete(params, "task")
		return nil
	})
	if err != nil { // not reached: the body was parsed before
		return body
	}
	return changed
}

// changeParams returns a copy of the body of a request with changed params.
func changeParams(body []byte, change func(params map[string]json.RawMessage) error) ([]byte, error) {
	from, to, ok := jsonrpc.Find(body, "params")
	if !ok {
		return nil, errInvalidParams
	}
	var params map[string]json.RawMessage
	err := json.Unmarshal(body[from:to], &params)
	if err == nil {
		err = change(params)
	}
	var changed []byte
	if err == nil {
		changed, err = json.Marshal(params)
	}
	if err != nil {
		return nil, fmt.Errorf("rejoin: params: %w", err)
	}
	return slices.Concat(body[:from], changed, body[to:]), nil
}

// serveTask answers tasks/get, tasks/update and tasks/cancel (extension tasks, 2026-07-28).
func (srv *Server) serveTask(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) *refusal {
	if !isAboutTask(m) {
		return &refusal{status: http.StatusNotFound, code: CodeMethodNotFound, message: "there is no such method: " + shorten(string(m.Method))}
	}
	if f := srv.checkTaskRequest(r, m); f != nil {
		return f
	}
	json, _ := door.Accepted(r.Header["Accept"])
	answers, _ := inputResponses(m)
	raw, _ := jsonrpc.Field(m.Params, "taskId")
	id, _ := jsonrpc.Unquote(raw)
	task := srv.tasks.Find(id, srv.principal(r))
	if task == nil {
		return &refuseUnknownTask
	}
	out := respond.New(w, srv.cfg.WriteTimeout)
	switch string(m.Method) {
	case "tasks/update":
		task.Answer(answers)
	case "tasks/cancel":
		task.Cancel()
	default:
		return srv.showTask(&out, json, task, m.ID)
	}
	_ = srv.answerTask(&out, json, m.ID, append(srv.appendMeta([]byte(`{"resultType":"complete"`), ""), '}')) // the client may be gone
	return nil
}

// inputResponses returns the answers of a tasks/update. Other methods have none. False: it lacks them.
func inputResponses(m *jsonrpc.Message) (answers map[string][]byte, ok bool) {
	if string(m.Method) != "tasks/update" {
		return nil, true
	}
	raw, _ := jsonrpc.Field(m.Params, "inputResponses")
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, false
	}
	answers = make(map[string][]byte, len(members))
	for key, answer := range members {
		answers[key] = answer
	}
	return answers, true
}

// showTask answers tasks/get.
func (srv *Server) showTask(out *respond.Writer, json bool, task *engine.Task, id []byte) *refusal {
	view, why := task.View()
	switch why {
	case core.NoReason:
	case core.StoreFailed:
		return &refuseStoreFailed
	default:
		return &refuseUnknownTask
	}
	if srv.answerTask(out, json, id, srv.appendTask(nil, "complete", &view)) && view.Status.Final() {
		task.Fetched()
	}
	return nil
}

// answerTask answers a request about a task with a result. It reports whether the client was written to.
func (srv *Server) answerTask(out *respond.Writer, json bool, id, result []byte) bool {
	message := jsonrpc.AppendResult(nil, id, result)
	if json {
		return out.JSON(http.StatusOK, message) == nil
	}
	out.Head()
	out.Begin()
	return out.SendLast(sse.AppendEvent(nil, nil, message)) == nil
}
