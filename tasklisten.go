package rejoin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// maxListened bounds the tasks of one subscriptions/listen.
const maxListened = 1000

// taskListen is a subscriptions/listen that names tasks. It is the http.Handler that a Relay runs in place of the app's: if the client has asked
// for anything else, the app's handler serves the request too, and the tasks are added to what it acknowledges.
type taskListen struct {
	srv     *Server
	app     http.Handler // nil: only tasks are listened to
	call    *modernCall
	tasks   []*engine.Task
	watcher *engine.TaskWatcher
	acked   chan struct{} // closed when the acknowledgement was written
	ack     sync.Once
}

// planListen returns how to serve a subscriptions/listen that names tasks, or why it is refused. Nil: it names none.
func (srv *Server) planListen(c *modernCall, r *http.Request, m *jsonrpc.Message) (*taskListen, *refusal) {
	raw, ok := jsonrpc.Field(m.Params, "notifications", "taskIds")
	if !ok || srv.tasks == nil || !srv.ownsTasks(r, m) {
		return nil, nil
	}
	var ids []string
	switch e := checkModernMeta(srv, r.Header, m); {
	case e != nil:
		return nil, refusalFrom(e)
	case !declaresTasks(m):
		return nil, refuseUndeclared("notifications.taskIds")
	case json.Unmarshal(raw, &ids) != nil, len(ids) > maxListened:
		return nil, &refusal{status: http.StatusBadRequest, code: CodeInvalidParams, message: "notifications.taskIds must be an array of at most 1000 strings"}
	case !c.stream:
		return nil, &refuseNoStream
	}
	l := &taskListen{srv: srv, call: c, watcher: engine.NewTaskWatcher(), acked: make(chan struct{})}
	principal := srv.principal(r)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if t := srv.tasks.Find(id, principal); t != nil { // others are left out, as if they did not exist
			l.tasks = append(l.tasks, t)
		}
	}
	var filters map[string]json.RawMessage
	rawFilters, _ := jsonrpc.Field(m.Params, "notifications")
	if json.Unmarshal(rawFilters, &filters) == nil && len(filters) > 1 {
		l.app = srv.modernApp
	}
	return l, nil
}

// start begins to send the changes of the tasks once the acknowledgement was written.
func (l *taskListen) start() {
	for _, t := range l.tasks {
		l.watcher.Watch(t)
	}
	go l.run()
}

// stop ends what start began.
func (l *taskListen) stop() {
	for _, t := range l.tasks {
		l.watcher.Stop(t)
	}
}

func (l *taskListen) run() {
	ctx := l.call.ctx
	select {
	case <-l.acked:
	case <-ctx.Done():
		return
	}
	for {
		for t := l.watcher.Next(); t != nil; t = l.watcher.Next() {
			if !l.show(t) {
				return
			}
		}
		select {
		case <-l.watcher.Changed():
		case <-ctx.Done():
			return
		}
	}
}

// show sends the present state of a task. False: the client is gone.
func (l *taskListen) show(t *engine.Task) bool {
	view, why := t.View()
	switch why {
	case core.NoReason:
	case core.StoreFailed: // it may return the result later
		time.AfterFunc(l.srv.cfg.Tasks.PollInterval, func() { l.watcher.Again(t) })
		return true
	default: // it has expired
		return true
	}
	var sent func()
	if view.Status.Final() {
		sent = t.Fetched
	}
	return l.call.out.SendAnd(l.srv.appendTaskNotification(nil, l.call.id, &view), sent) == nil
}

// ServeHTTP acknowledges the subscription and keeps it open.
func (l *taskListen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ids := []byte{'['}
	for i, t := range l.tasks {
		if i > 0 {
			ids = append(ids, ',')
		}
		ids = jsonrpc.AppendString(ids, t.ID())
	}
	ids = append(ids, ']')
	if l.app == nil {
		serveListen(w, r.Context(), l.srv, l.call.id, slices.Concat([]byte(`"taskIds":`), ids), l.acknowledged)
		return
	}
	l.app.ServeHTTP(&ackWriter{ResponseWriter: w, ids: ids, done: l.acknowledged}, r)
}

func (l *taskListen) acknowledged() { l.ack.Do(func() { close(l.acked) }) }

// serveListen serves a subscription on which nothing comes from here: it acknowledges what is in notifications (members of a JSON object), and stays
// open until its client or the server ends it.
func serveListen(w http.ResponseWriter, ctx context.Context, srv *Server, id, notifications []byte, acknowledged func()) { //nolint:revive // as a handler
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	params := slices.Concat([]byte(`{"_meta":{"`+metaSubscriptionID+`":`), id, []byte(`},"notifications":{`), notifications, []byte("}}"))
	_, _ = w.Write(sse.AppendEvent(nil, nil, jsonrpc.AppendRequest(nil, nil, ackMethod, params))) // a failure ends ctx
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	acknowledged()
	<-ctx.Done()
	_, _ = w.Write(srv.listenEnd(id)) // the client may be gone
}

// listenEnd is the event that ends a subscription.
func (srv *Server) listenEnd(id []byte) []byte {
	result := append(srv.appendMeta([]byte(`{"resultType":"complete"`), string(id)), '}')
	return sse.AppendEvent(nil, nil, jsonrpc.AppendResult(nil, id, result))
}

// ackWriter adds task ids to the acknowledgement that the app's handler writes. Until that comes, it passes on whole events.
type ackWriter struct {
	http.ResponseWriter

	ids  []byte
	done func()

	mu     sync.Mutex
	acked  bool
	events sse.Splitter
}

func (a *ackWriter) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.acked || !respond.IsStream(a.Header()) {
		return a.ResponseWriter.Write(p) //nolint:wrapcheck // it is the caller's
	}
	var out []byte
	_ = a.events.Write(p, func(message []byte) { // it has no limit
		if !a.acked {
			message, a.acked = withTaskIDs(message, a.ids)
		}
		out = sse.AppendEvent(out, nil, message)
	})
	if len(out) == 0 {
		return len(p), nil
	}
	if a.acked { // from now on everything is passed on
		out = append(out, a.events.Rest()...)
	}
	if _, err := a.ResponseWriter.Write(out); err != nil {
		return 0, err //nolint:wrapcheck // it is the caller's
	}
	if a.acked {
		a.Flush()
		a.done()
	}
	return len(p), nil
}

func (a *ackWriter) Flush() {
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// withTaskIDs adds the ids to an acknowledgement. False: the message is none.
func withTaskIDs(message, ids []byte) ([]byte, bool) {
	m, err := jsonrpc.Parse(message, maxJSONDepth)
	from, to, ok := jsonrpc.Find(message, "params", "notifications")
	if err != nil || string(m.Method) != ackMethod || !ok || !isObject(message[from:to]) {
		return message, false
	}
	return slices.Concat(message[:from], addMembers(message[from:to], `"taskIds":`+string(ids)), message[to:]), true
}

const ackMethod = "notifications/subscriptions/acknowledged"
