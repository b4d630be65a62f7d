package adaptertest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// An ordinary route lists the sessions and closes one stream, whose client polls for the rest.
func lends(e *exam) {
	c := e.start(progressApp(), rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
		return e.Lend(e, s, "/mcp", "/admin", admin)
	}})
	for _, spelling := range []string{"/mcp", "/mcp/"} {
		e.verbs(c, spelling)
	}
	root := e.start(progressApp(), rejointest.Config{Path: "/", Handler: func(s *rejoin.Server) http.Handler {
		return e.Lend(e, s, "/", "/admin", admin)
	}})
	e.verbs(root, "/")
	call, other := c.CallTool("x", nil), c.CallTool("y", nil)
	call.WaitMessages(1)
	list := func(stream rejoin.StreamRef) (all []rejoin.SessionInfo) {
		e.Helper()
		a := e.send(c, requestWithoutSession(http.MethodGet, "/admin?close="+string(stream), ""))
		if a.status != http.StatusOK || json.Unmarshal([]byte(a.body), &all) != nil || len(all) != 1 || all[0].Ref == "" {
			e.Fatalf("the ordinary route does not list one session: %+v", a)
		}
		return all
	}
	for _, s := range list("")[0].Streams {
		if string(s.RequestID) == string(call.ID()) {
			list(s.Ref)
		}
	}
	if retry := call.WaitClosed(); retry < 10*time.Second {
		e.Errorf("the ordinary route said 10 s, and the client is to be back after %v", retry)
	}
	if other.Open() != 1 {
		e.Errorf("another stream was closed as well")
	}
	for _, k := range []*rejointest.Call{call, other} {
		if got := string(k.Result()); got != `"done"` || len(k.Messages()) != 2 {
			e.Errorf("the result is %s, and the messages are %s", got, k.Messages())
		}
		for _, a := range responses(k) {
			e.wantStream(a, "a call, with the adapter's middleware")
		}
	}
}

// admin lists the sessions of the server in its request's context. Before that it closes the stream that the request names.
func admin(w http.ResponseWriter, r *http.Request) {
	s := rejoin.ServerFromContext(r.Context())
	if s == nil {
		http.Error(w, "no server", http.StatusTeapot)
		return
	}
	if ref := r.FormValue("close"); ref != "" {
		if err := s.CloseStream(rejoin.StreamRef(ref), 10*time.Second); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
	}
	all := []rejoin.SessionInfo{}
	for info := range s.Sessions() {
		all = append(all, info)
	}
	_ = json.NewEncoder(w).Encode(all)
}

// With an empty path the middleware only passes the server on. It does not serve the endpoint at any path.
func lendsAlone(e *exam) {
	s, err := rejoin.NewServer(idle(), rejoin.Config{})
	if err != nil {
		e.Fatal(err)
	}
	defer s.Close()
	var found *rejoin.Server
	route := func(w http.ResponseWriter, r *http.Request) { found = rejoin.ServerFromContext(r.Context()) }
	c := e.start(idle(), rejointest.Config{Handler: func(own *rejoin.Server) http.Handler {
		lent := e.Lend(e, s, "", "/admin", route)
		endpoint := e.Mount(e, own, "/mcp")
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/mcp" {
				endpoint.ServeHTTP(w, r)
				return
			}
			lent.ServeHTTP(w, r)
		})
	}})
	for _, path := range []string{"/", "/mcp/", "/other"} {
		if a := e.send(c, requestWithoutSession(http.MethodPost, path, initialize)); a.status != http.StatusNotFound {
			e.Errorf("POST %s: %+v, not the router's 404", path, a)
		}
	}
	if a := e.send(c, requestWithoutSession(http.MethodGet, "/admin", "")); a.status != http.StatusOK || found != s {
		e.Errorf("the ordinary route does not find the server: %+v", a)
	}
	if rejoin.ServerFromContext(context.Background()) != nil {
		e.Errorf("an empty context has a server")
	}
}
