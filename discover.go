package rejoin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// discovered is what the app's handler has answered to server/discover: whether it makes tasks itself, and who it is. Safe for concurrent use.
type discovered struct {
	asking chan struct{} // has room for the one that asks the app
	known  atomic.Pointer[selfDescription]
}

// selfDescription is a part of an answer to server/discover.
type selfDescription struct {
	tasks      bool   // the app has the tasks extension itself
	serverInfo []byte // JSON; nil: it does not say
}

// serverInfo returns who the app is, as JSON; nil: that is not known yet.
func (d *discovered) serverInfo() []byte {
	if known := d.known.Load(); known != nil {
		return known.serverInfo
	}
	return nil
}

// learn reads the result of a server/discover.
func (d *discovered) learn(result []byte) *selfDescription {
	extension, _ := jsonrpc.Field(result, "capabilities", "extensions", tasksExtension)
	info, _ := jsonrpc.Field(result, "_meta", metaServerInfo)
	known := &selfDescription{tasks: isObject(extension)}
	if isObject(info) && len(info) <= maxClientBytes {
		known.serverInfo = bytes.Clone(info)
	}
	d.known.Store(known)
	return known
}

// ownsTasks reports whether the server makes tasks for the app. An app that has the extension itself is left alone. As long as that is not known,
// the app is asked, with the header and the context of r.
func (srv *Server) ownsTasks(r *http.Request, m *jsonrpc.Message) bool {
	if srv.tasks == nil {
		return false
	}
	d := &srv.discovered
	if known := d.known.Load(); known != nil {
		return !known.tasks
	}
	select {
	case d.asking <- struct{}{}:
	case <-r.Context().Done():
		return true // the client has gone
	}
	defer func() { <-d.asking }()
	if known := d.known.Load(); known != nil {
		return !known.tasks
	}
	request, done := srv.discoverRequest(r, m)
	defer done()
	answer, _ := srv.askApp(request)
	if answer.Kind != jsonrpc.Result {
		return true // the next request asks again
	}
	return !srv.discovered.learn(answer.Result).tasks
}

// discoverRequest makes a server/discover in the name of the client of r. done must be called when it was answered.
func (srv *Server) discoverRequest(r *http.Request, m *jsonrpc.Message) (_ *http.Request, done func()) {
	const id = `"rejoin-discover"`
	meta, ok := jsonrpc.Field(m.Params, "_meta")
	if !ok {
		meta = []byte("{}")
	}
	params := slices.Concat([]byte(`{"_meta":`), meta, []byte("}"))
	out := respond.NewRelay(httpDiscard{}, respond.RelayConfig{})
	out.Close() // nothing is sent in it
	c := &modernCall{srv: srv, id: []byte(id), method: "server/discover", params: params, json: true, stream: true, out: out}
	ctx, cancel := context.WithCancel(context.WithValue(ContextWithServer(r.Context(), srv), handleKey{}, &Handle{modern: c}))
	c.ctx = ctx
	stop := context.AfterFunc(srv.modernCtx, cancel) // Close does not wait for an app that hangs
	request := modernRequest(r.WithContext(ctx), jsonrpc.AppendRequest(nil, []byte(id), c.method, params))
	request.Header.Set(methodHeader, c.method)
	request.Header.Del(nameHeader)
	request.Header["Accept"] = []string{"application/json, text/event-stream"}
	return request, func() { stop(); cancel() }
}

// askApp lets the app's handler answer a request, and returns the answer and its HTTP status. The zero answer: there is none, or the context of r
// has ended before.
func (srv *Server) askApp(r *http.Request) (answer jsonrpc.Message, status int) {
	answers, ended := make(chan jsonrpc.Message, 1), make(chan struct{})
	returned := srv.countUnreturned(r.Context())
	c := &respond.Collector{
		Message: func(raw []byte) {
			m, err := jsonrpc.Parse(raw, maxJSONDepth)
			if err != nil || m.Kind != jsonrpc.Result && m.Kind != jsonrpc.Failure {
				return
			}
			select {
			case answers <- m:
			default: // it has answered before
			}
		},
		Ended: func(what any, stack string) {
			if what != nil && what != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				srv.logPanic("the handler of modern requests", what, stack)
			}
			returned()
			close(ended)
		},
		Limit: engine.MaxEventBytes,
	}
	respond.Collect(srv.modernApp, r, c)
	select {
	case <-ended:
	case <-r.Context().Done():
	}
	select {
	case answer = <-answers:
		return answer, c.Status()
	default:
		return jsonrpc.Message{}, 0
	}
}

// httpDiscard is a ResponseWriter that keeps nothing.
type httpDiscard struct{}

func (httpDiscard) Header() http.Header         { return http.Header{} }
func (httpDiscard) Write(p []byte) (int, error) { return len(p), nil }
func (httpDiscard) WriteHeader(int)             {}

// discovery answers server/discover: as the app does, but with the tasks that the server makes for it.
type discovery struct {
	srv  *Server
	body []byte
}

func (d discovery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, status := d.srv.askApp(modernRequest(r, d.body))
	message := answer.Raw
	switch {
	case status == 0:
		status = http.StatusInternalServerError
		message = jsonrpc.AppendError(nil, HandleFromContext(r.Context()).modern.id, CodeInternal, "internal error", nil)
	case answer.Kind != jsonrpc.Result:
	case d.srv.discovered.learn(answer.Result).tasks: // the app answers itself, in its own form
		d.srv.modernApp.ServeHTTP(w, modernRequest(r, d.body))
		return
	default:
		if result, err := withTasks(answer.Result); err == nil {
			message = jsonrpc.AppendResult(nil, answer.ID, result)
		}
	}
	kind := "application/json"
	if json, stream := door.Accepted(r.Header["Accept"]); stream && !json {
		kind, status, message = "text/event-stream", http.StatusOK, sse.AppendEvent(nil, nil, message)
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(message) // the client may be gone
}

// withTasks puts the extension into the result of a server/discover, and takes the tasks of older versions out (tasks, "negotiation": they must
// not be advertised together).
func withTasks(result []byte) ([]byte, error) {
	var capabilities, extensions map[string]json.RawMessage
	from, to, ok := jsonrpc.Find(result, "capabilities")
	_ = json.Unmarshal(result[from:to], &capabilities) // nil if there are none
	if capabilities == nil {
		capabilities = map[string]json.RawMessage{}
	}
	_ = json.Unmarshal(capabilities["extensions"], &extensions)
	if extensions == nil {
		extensions = map[string]json.RawMessage{}
	}
	extensions[tasksExtension] = json.RawMessage("{}")
	delete(capabilities, "tasks")
	var err error
	if capabilities["extensions"], err = json.Marshal(extensions); err != nil {
		return nil, err //nolint:wrapcheck // only whether there is one matters
	}
	changed, err := json.Marshal(capabilities)
	if !ok {
		return addMembers(result, `"capabilities":`+string(changed)), err
	}
	return slices.Concat(result[:from], changed, result[to:]), err
}
