package rejoin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// modernVersion reports whether a message declares that it belongs to the modern era. It does so with any version in its _meta that is not a
// known one, because older versions have no version there. declared is the version in _meta, as JSON; nil: there is none.
func modernVersion(m *jsonrpc.Message) (declared []byte, modern bool) {
	declared, ok := jsonrpc.Field(m.Params, "_meta", metaPrefix+"protocolVersion")
	if !ok {
		return nil, false
	}
	name, _ := jsonrpc.Unquote(declared)
	_, known := core.Find(name)
	return declared, !known
}

func isModern(m *jsonrpc.Message) bool {
	_, modern := modernVersion(m)
	return modern
}

// refusesProbe reports whether m is a probe that is answered as with EraLegacy, so that its client falls back to the legacy era and polls there:
// see EraDefault. Anything but a probe is served: no client falls back when one of its calls is refused.
func (srv *Server) refusesProbe(r *http.Request, m *jsonrpc.Message) bool {
	return srv.cfg.Eras == EraDefault && m.Kind == jsonrpc.Request && string(m.Method) == "server/discover" &&
		!declaresTasks(m) && srv.canPoll(probingClient(r, m))
}

// probingClient is the client of a probe as it would be in a session, of the newest version that has sessions.
func probingClient(r *http.Request, m *jsonrpc.Message) ClientInfo {
	c := modernClient(r.Header, m)
	c.Protocol = core.Versions[0].Name
	return c
}

// checkModern refuses a request whose version, in the header or else in the body, cannot be a version of the modern era. The refusal has the
// form that the modern era prescribes. The app's handler decides whether it speaks a version that can be one.
func (srv *Server) checkModern(version string, declared []byte) *refusal {
	if _, known := core.Find(version); known || version == "" {
		if declared == nil {
			return nil
		}
		version, _ = jsonrpc.Unquote(declared)
	}
	if core.IsModern(version) {
		return nil
	}
	return &refusal{status: http.StatusBadRequest, code: codeVersion, data: srv.unknownVersionData(version), message: unknownVersion}
}

// serveModern answers a request of the modern era. Requests about tasks are the server's; the app's handler gets the others, with the body as it
// came.
func (srv *Server) serveModern(w http.ResponseWriter, r *http.Request, in *incoming) *refusal {
	m := &in.one[0]
	running := &srv.modernRunning
	if string(m.Method) == methodListen { // never ends by itself, so Drain does not wait for it, but ends it
		running = &srv.listensRunning
	}
	running.Add(1) // before Draining is checked, so that a Drain that begins in between waits for this request
	defer func() {
		running.Add(-1)
		srv.engine.Notify()
	}()
	c := &modernCall{srv: srv, id: m.ID, method: methodName(m.Method), params: m.Params}
	if m.Kind == jsonrpc.Request && strings.HasPrefix(c.method, "tasks/") && srv.ownsTasks(r, m) {
		return srv.serveTask(w, r, m) // also while the server drains: no other process could
	}
	if srv.engine.Draining() {
		return &refuseDraining
	}
	if srv.tooManyUnreturned() {
		return &refuseUnreturned
	}
	c.json, c.stream = door.Accepted(r.Header["Accept"])
	plan, f := srv.planModern(c, r, m, in.body)
	if f != nil {
		return f
	}
	plan.left = in.note.Left
	srv.runModern(w, r, c, &plan)
	return nil
}

// modernPlan says how a modern request is served.
type modernPlan struct {
	handler http.Handler
	body    []byte
	limit   time.Duration // its MaxRuntime; not positive: none
	after   time.Duration // its TaskAfter; not positive: never
	left    time.Duration // it must have ended in so long, for the process that has forwarded it; 0: no limit
	task    *taskCall     // nil: it cannot become a task
	listen  *taskListen   // nil: it does not listen to tasks
}

// planModern decides how a request is served, or returns why it is refused.
func (srv *Server) planModern(c *modernCall, r *http.Request, m *jsonrpc.Message, body []byte) (modernPlan, *refusal) {
	plan := modernPlan{handler: srv.modernApp, body: body}
	if m.Kind != jsonrpc.Request {
		return plan, nil
	}
	var f *refusal
	switch c.method {
	case "server/discover":
		if known := srv.discovered.known.Load(); srv.tasks != nil && (known == nil || !known.tasks) {
			plan.handler = discovery{srv, body}
		}
		return plan, nil
	case methodListen:
		plan.listen, f = srv.planListen(c, r, m)
		if plan.listen != nil {
			plan.handler = plan.listen
		}
		return plan, f
	}
	tasks := false
	if c.method == "tools/call" {
		if tasks, f = srv.canBecomeTask(r, m); f != nil {
			return plan, f
		}
		if srv.hasOldTask(r, m) {
			body = withoutTask(body)
			plan.body = body
		}
	}
	policy := srv.modernPolicy(r, m, tasks)
	plan.limit, plan.after = policy.MaxRuntime, policy.TaskAfter
	if tasks {
		plan.task = newTaskCall(c, r, body, policy)
		c.task = plan.task
	}
	return plan, nil
}

// runModern lets the handler answer, in a goroutine of its own. The request has no session, so it ends with its connection, unless it becomes a
// task, or with the server. It waits for the handler, or for the answer that a task is.
func (srv *Server) runModern(w http.ResponseWriter, r *http.Request, c *modernCall, plan *modernPlan) {
	parent, ends := r.Context(), srv.modernCtx
	if c.method == methodListen {
		ends = srv.listenCtx
	}
	if plan.task != nil {
		parent = context.WithoutCancel(parent) // plan.task ends it with the request
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ContextWithServer(parent, srv), handleKey{}, &Handle{modern: c}))
	c.ctx = ctx
	request := modernRequest(r.WithContext(ctx), plan.body)
	cfg := respond.RelayConfig{
		WriteTimeout: srv.cfg.WriteTimeout, KeepAlive: srv.cfg.KeepAlive, JSON: c.json, Stream: c.stream,
		CannotFlush: func() { srv.logNoFlush(r) },
		WriteFailed: func(err error) {
			srv.engine.NoteWriteError(err)
			cancel(err)
		},
	}
	if plan.task != nil {
		plan.task.begin(r.Context(), cancel, request, plan.handler)
		cfg.Leave = plan.task
	}
	out := respond.NewRelay(w, cfg)
	c.out = out
	srv.liftModernLimits(r, out, plan)
	if plan.task != nil {
		defer plan.task.makeAfter(plan.after)()
	}
	stopped := context.AfterFunc(ends, func() { cancel(ErrShutdown) })
	var overran *time.Timer
	switch {
	case plan.limit <= 0:
	case plan.task != nil:
		overran = time.AfterFunc(plan.limit, plan.task.overran)
	default:
		overran = time.AfterFunc(plan.limit, func() { cancel(ErrMaxRuntime) })
	}
	returned := srv.countUnreturned(ctx)
	left := false
	defer func() { // also if the writer of a middleware panics
		stopped()
		if overran != nil {
			overran.Stop()
		}
		if plan.task != nil {
			plan.task.leave()
		}
		if left {
			return // a task goes on
		}
		if plan.listen != nil {
			defer plan.listen.stop()
		}
		cancel(nil)
		out.Close()
		returned()
	}()
	if plan.task != nil {
		plan.task.returned = returned
	}
	if plan.listen != nil {
		plan.listen.start()
	}
	out.Start(plan.handler, request)
	if left = out.Run(); left {
		return
	}
	returned()
	srv.finishModern(ctx, out, c.id)
}

// liftModernLimits removes the read and write limits of the http.Server from this request. If it cannot remove the latter, the call becomes a task
// before, or it logs that calls end there.
func (srv *Server) liftModernLimits(r *http.Request, out *respond.Relay, plan *modernPlan) {
	if plan.task != nil && plan.after > 0 {
		for _, left := range [...]time.Duration{srv.timeLeft(r, out), plan.left} {
			if left > 0 {
				plan.after = min(plan.after, left)
			}
		}
	} else if hs, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && hs.WriteTimeout > 0 && !out.Unbound() {
		srv.warnOnce(warnNoDeadline, "rejoin: the response writer has no write deadlines: the server's WriteTimeout ends modern requests",
			"timeout", hs.WriteTimeout)
	}
	out.Stay()
}

// finishModern ends the response in the way in which the handler has ended. id is the id of the request; nil: it is a notification.
func (srv *Server) finishModern(ctx context.Context, out *respond.Relay, id []byte) {
	what, stack := out.Panicked()
	if why := endedBy(ctx); why != core.NoReason && what == nil && !out.Wrote() { // SDKs do not answer when the context has ended
		f := failure(why)
		out.Answer(modernStatus(f), jsonrpc.AppendError(nil, id, f.Code, f.Message, f.Data), id != nil)
		return
	}
	switch what {
	case nil:
		out.Finish()
	case http.ErrAbortHandler:
		out.Abort()
	default:
		srv.logPanic("the handler of modern requests", what, stack)
		out.Answer(http.StatusInternalServerError, jsonrpc.AppendError(nil, id, CodeInternal, "internal error", nil), id != nil)
	}
}

// endedBy returns why the server has ended a request, or NoReason.
func endedBy(ctx context.Context) core.Reason {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrShutdown):
		return core.Shutdown
	case errors.Is(cause, ErrMaxRuntime):
		return core.Overran
	}
	return core.NoReason
}

// countUnreturned counts a handler among those that run although their requests have ended: from the end of ctx until returned is called.
func (srv *Server) countUnreturned(ctx context.Context) (returned func()) {
	stop := context.AfterFunc(ctx, func() { srv.engine.Stale().Add(1) })
	return sync.OnceFunc(func() {
		if !stop() {
			srv.engine.Stale().Add(-1)
		}
	})
}

// modernRequest changes r, a copy that nothing else uses, into the request for the app's handler. It gets the body that was checked, and loses
// the headers of the legacy era, which clients of both eras still send.
func modernRequest(r *http.Request, body []byte) *http.Request {
	r.Body, r.ContentLength, r.TransferEncoding = door.Replay(body), int64(len(body)), nil
	r.Header = r.Header.Clone()
	r.Header.Del(sessionHeader)
	r.Header.Del(cursorHeader)
	if version, _ := door.Single(r.Header[versionHeader]); version != "" {
		r.Header[versionHeader] = []string{version} // once, although it may have come twice
	}
	return r
}
