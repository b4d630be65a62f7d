package rejoin

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// modernVersion reports whether a message declares that it belongs to the modern era. It does so with any version in its _meta that is not a
// known one, because older versions have no version there. declared is the version in _meta, as JSON; nil: there is none.
func modernVersion(m *jsonrpc.Message) (declared []byte, modern bool) {
	declared, ok := jsonrpc.Field(m.Params, "_meta", "io.modelcontextprotocol/protocolVersion")
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

const tasksExtension = metaPrefix + "tasks"

// refusesProbe reports whether m is a probe that is answered as with EraLegacy, so that its client falls back to the legacy era and polls there:
// see EraDefault. Anything but a probe is served: no client falls back when one of its calls is refused.
func (srv *Server) refusesProbe(r *http.Request, m *jsonrpc.Message) bool {
	return srv.cfg.Eras == EraDefault && m.Kind == jsonrpc.Request && string(m.Method) == "server/discover" &&
		!declaresTasks(m) && srv.canPoll(probingClient(r, m))
}

// declaresTasks reports whether a modern request says that its client can be given a task. By the specification the value is {}, and extensions
// have objects for their settings. So any object counts: a client with settings that this server does not know still takes tasks. Any other
// value says nothing.
func declaresTasks(m *jsonrpc.Message) bool {
	settings, _ := jsonrpc.Field(m.Params, "_meta", metaPrefix+"clientCapabilities", "extensions", tasksExtension)
	return isObject(settings)
}

// probingClient is the client of a probe as it would be in a session, of the newest version that has sessions.
func probingClient(r *http.Request, m *jsonrpc.Message) ClientInfo {
	info, _ := jsonrpc.Field(m.Params, "_meta", metaPrefix+"clientInfo")
	capabilities, _ := jsonrpc.Field(m.Params, "_meta", metaPrefix+"clientCapabilities")
	c := newClientInfo(trimClientInfo(info), trimCapabilities(capabilities))
	c.Protocol, c.UserAgent = core.Versions[0].Name, r.Header.Get("User-Agent")
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

// serveModern passes a request of the modern era to the app's handler, with the body as it came. The request has no session, so it ends with
// its connection, or with the server. The handler runs in its own goroutine. serveModern waits for it.
func (srv *Server) serveModern(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, body []byte) *refusal {
	running, ends := &srv.modernRunning, srv.modernCtx
	if string(m.Method) == "subscriptions/listen" { // never ends by itself, so Drain does not wait for it, but ends it
		running, ends = &srv.listensRunning, srv.listenCtx
	}
	running.Add(1) // before Draining is checked, so that a Drain that begins in between waits for this request
	defer func() {
		running.Add(-1)
		srv.engine.Notify()
	}()
	if srv.engine.Draining() {
		return &refuseDraining
	}
	if srv.tooManyUnreturned() {
		return &refuseUnreturned
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ContextWithServer(r.Context(), srv), handleKey{}, &Handle{modern: &modernCall{srv: srv}}))
	defer cancel(nil)
	defer context.AfterFunc(ends, func() { cancel(ErrShutdown) })()

	out := respond.NewRelay(w, respond.RelayConfig{
		WriteTimeout: srv.cfg.WriteTimeout, KeepAlive: srv.cfg.KeepAlive,
		CannotFlush: func() { srv.logNoFlush(r) },
		WriteFailed: func(err error) {
			srv.engine.NoteWriteError(err)
			cancel(err)
		},
	})
	srv.liftModernLimits(r, out)
	returned := srv.countUnreturned(ctx)
	defer func() { // also if the writer of a middleware panics
		cancel(nil)
		out.Close()
		returned()
	}()
	out.Start(srv.modernApp, modernRequest(r.WithContext(ctx), body))
	out.Run()
	returned()
	srv.finishModern(ctx, out, m.ID)
	return nil
}

// liftModernLimits removes the read and write limits of the http.Server from this request. It logs if it cannot remove the latter.
func (srv *Server) liftModernLimits(r *http.Request, out *respond.Relay) {
	if hs, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && hs.WriteTimeout > 0 && !out.Unbound() {
		srv.warnOnce(warnNoDeadline, "rejoin: the response writer has no write deadlines: the server's WriteTimeout ends modern requests",
			"timeout", hs.WriteTimeout)
	}
	out.Stay()
}

// finishModern ends the response in the way in which the handler has ended. id is the id of the request; nil: it is a notification.
func (srv *Server) finishModern(ctx context.Context, out *respond.Relay, id []byte) {
	what, stack := out.Panicked()
	switch {
	case what == nil && !out.Wrote() && errors.Is(context.Cause(ctx), ErrShutdown): // SDKs do not answer when the context has ended
		f := failure(core.Shutdown)
		out.Answer(http.StatusServiceUnavailable, jsonrpc.AppendError(nil, id, f.Code, f.Message, f.Data), id != nil)
	case what == nil:
		out.Finish()
	case what == http.ErrAbortHandler: //nolint:errorlint // as net/http compares it
		out.Abort()
	default:
		srv.logPanic("the handler of modern requests", what, stack)
		out.Answer(http.StatusInternalServerError, jsonrpc.AppendError(nil, id, CodeInternal, "internal error", nil), id != nil)
	}
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
