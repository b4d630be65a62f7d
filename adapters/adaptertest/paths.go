package adaptertest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing/synctest"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// idle is an app that answers every request with {}.
func idle() rejoin.App {
	return app(func(context.Context, *rejoin.Request) (any, error) { return struct{}{}, nil })
}

// app is an app that sends its handler's results unchanged.
func app(h rejoin.Handler) rejoin.App {
	info := rejoin.Info{Name: "adaptertest", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}
	return rejoin.NewApp(info, func(ctx context.Context, r *rejoin.Request) (any, error) {
		result, err := h(ctx, r)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(result)
		return json.RawMessage(raw), err
	})
}

// Clients are configured with either spelling of the path, and a redirect loses a POST's body or its headers. So both are served, and all
// answers are the server's, not the router's.
func paths(e *exam) {
	for path, url := range map[string]string{"/mcp": "/mcp", "/a/b/mcp": "/a/b/mcp", "/{tenant}/mcp": "/acme/mcp"} {
		c := e.start(idle(), rejointest.Config{Path: url, Handler: e.mount(path)})
		for _, spelling := range []string{url, url + "/"} {
			e.verbs(c, spelling)
		}
		if a := e.send(c, requestWithoutSession(http.MethodPost, "/elsewhere/and/away", initialize)); a.status != http.StatusNotFound {
			e.Errorf("POST to another path than %s: %+v", path, a)
		}
	}
}

// verbs checks the answer to each verb at path.
func (e *exam) verbs(c *rejointest.Client, path string) {
	opened := e.send(c, requestWithoutSession(http.MethodPost, path, initialize))
	session := opened.header.Get(sessionHeader)
	if m, ok := parse([]byte(opened.body)); opened.status != http.StatusOK || session == "" || !ok || m.Result == nil {
		e.Errorf("initialize to %s: %+v", path, opened)
	}
	for _, verb := range []string{http.MethodGet, http.MethodDelete} {
		a := e.send(c, requestWithoutSession(verb, path, ""))
		if m, ok := parse([]byte(a.body)); a.status != http.StatusBadRequest || !ok || m.Error == nil {
			e.Errorf("%s %s without a session: %+v, not 400 with a JSON-RPC error", verb, path, a)
		}
	}
	for _, verb := range []string{http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodOptions, http.MethodTrace} {
		a := e.send(c, requestWithoutSession(verb, path, ""))
		if allow := strings.Join(a.header.Values("Allow"), "; "); a.status != http.StatusMethodNotAllowed || allow != allowed {
			e.Errorf("%s %s: %+v, not 405 with Allow: %s", verb, path, a, allowed)
		}
		if m, ok := parse([]byte(a.body)); verb != http.MethodHead && (!ok || m.Error == nil) {
			e.Errorf("%s %s: the body is not a JSON-RPC error: %q", verb, path, a.body)
		}
	}
	if session == "" {
		return
	}
	in := func(method, body string) *http.Request {
		r := request(method, path, body)
		r.Header.Set(sessionHeader, session)
		return r
	}
	if a := e.send(c, in(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); a.status != http.StatusAccepted || a.body != "" {
		e.Errorf("a notification to %s: %+v, not 202 without a body", path, a)
	}
	if a := e.send(c, in(http.MethodPost, ping)); a.status != http.StatusOK || a.body != pong {
		e.Errorf("a ping to %s: %+v", path, a)
	}
	listening := c.Do(in(http.MethodGet, ""))
	if listening.StatusCode != http.StatusOK || listening.Header.Get("Content-Type") != "text/event-stream" {
		e.Errorf("GET %s: %s, not a stream", path, listening.Status)
	}
	_ = listening.Body.Close()
	synctest.Wait()
	if a := e.send(c, in(http.MethodDelete, "")); a.status != http.StatusNoContent || a.body != "" {
		e.Errorf("DELETE %s: %+v, not 204 without a body", path, a)
	}
	if a := e.send(c, in(http.MethodPost, ping)); a.status != http.StatusNotFound || !strings.Contains(a.body, "-32001") {
		e.Errorf("POST %s after DELETE: %+v, not the server's 404", path, a)
	}
}
