package rejoin

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/member"
)

// In a cluster a task has an owner as a session has, and a record in the directory, under a key that is made of its id. Requests about it are forwarded
// to the owner. If that is dead, the process that gets the next one adopts the task: as it has ended, or failed because the call was lost.

// aboutTask is what a record has in addition if it is that of a task. The record has its principal and when it was made, too.
type aboutTask struct {
	TTL time.Duration `json:"ttl"`
}

// newTask is a task that is about to be made. id "": it cannot be made.
type newTask struct {
	id    string
	owner *engine.Owner // nil: outside a cluster
}

// giveUp forgets a task that was not made.
func (m newTask) giveUp() {
	if m.owner != nil {
		go func() { _ = m.owner.Record.End() }() // tried again by itself
	}
}

// newTask makes the id of a task, and in a cluster its record: the client must not get the id before that. task is where the task will be.
func (srv *Server) newTask(c *modernCall, principal string, task *atomic.Pointer[engine.Task]) newTask {
	made := newTask{id: srv.tasks.NewID()}
	n := srv.node
	switch {
	case !srv.tasks.HasRoom(principal):
		if c.ctx.Err() == nil && srv.modernCtx.Err() == nil { // else it is over
			srv.logTasksFull()
		}
		return newTask{}
	case n == nil:
		return made
	case !n.member.Serves(c.ctx):
		return newTask{}
	}
	about, err := json.Marshal(&aboutSession{
		Principal: principalHash(made.id, principal), Created: time.Now().Round(0), Task: &aboutTask{srv.cfg.Tasks.TTL},
	})
	if err != nil { // not reached
		return newTask{}
	}
	record := member.NewRecord(n.taskRecord(n.key(made.id), 1, task))
	if err := record.Create(recordFormat, about); err != nil {
		srv.log.Error("rejoin: a task could not be recorded, so a call goes on without", "error", err)
		newTask{owner: &engine.Owner{Record: record}}.giveUp() // the directory may have it all the same
		return newTask{}
	}
	made.owner = &engine.Owner{Key: record.Key, Fence: record.Fence, Record: record}
	return made
}

// taskRecord is what is needed for the record of a task that this process is to own.
func (n *node) taskRecord(key string, epoch uint64, task *atomic.Pointer[engine.Task]) member.RecordConfig {
	return member.RecordConfig{
		Directory: n.Directory, Owner: n.member.Me(), Key: key, Epoch: epoch, TTL: n.taskTTL, Timeout: n.srv.cfg.StoreTimeout,
		State: func() []byte { return nil }, Term: n.member.Term, Host: n,
		Moved: func() {
			if t := task.Load(); t != nil {
				t.Move()
			}
		},
	}
}

// takeTask takes a task from its last owner.
func (n *node) takeTask(r *http.Request, id, principal string, record *cluster.Record, about *aboutSession) (*engine.Task, *refusal) {
	if !n.srv.tasks.HasRoomToAdopt() { // before the directory changes for nothing
		return nil, &refuseTasksFull
	}
	record, streams, from, term, f := n.adopt(r, record, n.taskTTL)
	if f != nil {
		if f == &refuseUnknownSession {
			f = &refuseUnknownTask
		}
		return nil, f
	}
	var task atomic.Pointer[engine.Task]
	mine := member.Adopted(n.taskRecord(record.Session, record.Fence.Epoch, &task), term, from, record)
	t, err := n.srv.tasks.Adopt((*taskHost)(n.srv), &engine.AdoptedTask{
		ID: id, Principal: principal, Created: about.Created, Config: core.TaskConfig{TTL: about.Task.TTL},
		Owner: &engine.Owner{Key: mine.Key, Fence: mine.Fence, Record: mine}, Streams: adoptedStreams(streams),
	})
	if draining := n.srv.engine.Draining(); err != nil || draining || !n.member.Holds() { // that began in between
		if err != nil && !errors.Is(err, engine.ErrNoRoom) {
			n.srv.log.Error("rejoin: a task of a process that is lost could not be read", "error", err)
		}
		if t != nil {
			t.HandOver()
		}
		mine.Release(nil, nil)
		if draining {
			return nil, &refuseOvertaken
		}
		return nil, &refuseAway
	}
	task.Store(t)
	n.srv.stats.adopted.Add(1)
	return t, nil
}

// ownedTasks returns the tasks of this process.
func (n *node) ownedTasks() []*engine.Task {
	if n.srv.tasks == nil {
		return nil
	}
	return n.srv.tasks.All()
}

// recordOf is the record of a task.
func recordOf(t *engine.Task) *member.Record {
	record, _ := t.Owner().Record.(*member.Record)
	return record
}

// placeModern finds the process that is to serve a request of the modern era, in a cluster: in.place, if it is another one.
func (n *node) placeModern(r *http.Request, in *incoming) *refusal {
	m := &in.one[0]
	srv := n.srv
	switch {
	case m.Kind == jsonrpc.Request && isAboutTask(m) && srv.ownsTasks(r, m):
		if f := srv.checkTaskRequest(r, m); f != nil {
			return f
		}
		raw, _ := jsonrpc.Field(m.Params, "taskId")
		id, _ := jsonrpc.Unquote(raw)
		return n.placeTask(r, in, id)
	case m.Kind == jsonrpc.Request && string(m.Method) == methodListen && !srv.engine.Draining():
		n.placeListen(r, in, m)
	case srv.engine.Draining() && in.forwarded: // the process that has sent it looks for another one
		return &refuseMisdirected
	case srv.engine.Draining():
		n.handOn(r, in)
	}
	return nil
}

func isAboutTask(m *jsonrpc.Message) bool {
	switch string(m.Method) {
	case "tasks/get", "tasks/update", "tasks/cancel":
		return true
	}
	return false
}

// placeTask finds the process that has a task. It adopts the task if its owner is dead.
func (n *node) placeTask(r *http.Request, in *incoming, id string) *refusal {
	t := n.srv.tasks.Find(id, n.srv.principal(r))
	switch {
	case t == nil:
		return n.locate(r, in, id, &theTask)
	case !n.member.Serves(r.Context()) || recordOf(t).Owned() != nil: // another process may own it by now
		return &refuseAway
	}
	return nil
}

// maxPlaced limits the tasks of one subscriptions/listen that are looked for.
const maxPlaced = 8

// placeListen finds the process that has the tasks that a client listens to. Tasks of other processes are left out, as if they did not exist: their
// client polls them.
func (n *node) placeListen(r *http.Request, in *incoming, m *jsonrpc.Message) {
	raw, ok := jsonrpc.Field(m.Params, "notifications", "taskIds")
	var ids []string
	if !ok || in.forwarded || in.stays || n.srv.tasks == nil || !n.srv.ownsTasks(r, m) || json.Unmarshal(raw, &ids) != nil {
		return
	}
	principal := n.srv.principal(r)
	for _, id := range ids {
		if n.srv.tasks.Find(id, principal) != nil {
			return
		}
	}
	for _, id := range ids[:min(len(ids), maxPlaced)] {
		if n.placeTask(r, in, id) == nil { // it is found, or was adopted
			return
		}
	}
}

// checkTaskRequest returns why a request about a task is refused before it is known which.
func (srv *Server) checkTaskRequest(r *http.Request, m *jsonrpc.Message) *refusal {
	json, stream := door.Accepted(r.Header["Accept"])
	if !json && !stream {
		return &refuseAccept
	}
	if e := checkModernMeta(srv, r.Header, m); e != nil {
		return refusalFrom(e)
	}
	if !declaresTasks(m) {
		return refuseUndeclared(string(m.Method))
	}
	if _, ok := inputResponses(m); !ok {
		return &refusal{status: http.StatusBadRequest, code: CodeInvalidParams, message: "params needs inputResponses, an object"}
	}
	return nil
}
