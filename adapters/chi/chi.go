// Package chiadapter mounts a rejoin server on chi.
//
//	r.Mount("/mcp", chiadapter.New(srv))
//
// In a tool chi.URLParamFromCtx(ctx, name) works, at any time. What chi's middleware puts into the request's context stays as it is.
package chiadapter

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/rejoin-mcp/rejoin"
)

// New returns the endpoint as a handler, for r.Mount and r.Handle.
func New(s *rejoin.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(s, w, r) })
}

// Register serves path and path+"/", all verbs, without a redirect. path may hold parameters.
func Register(r chi.Router, path string, s *rejoin.Server) {
	path = strings.TrimSuffix(path, "/")
	h := New(s)
	if path != "" {
		r.Handle(path, h)
	}
	r.Handle(path+"/", h)
}

// Middleware serves path (from the root, no parameters; "" serves nothing) and puts s into the context of all other requests, where
// rejoin.ServerFromContext finds it. chi runs the middleware of a router only once that has a route.
func Middleware(path string, s *rejoin.Server) func(http.Handler) http.Handler {
	serves := path != ""
	path = strings.TrimSuffix(path, "/")
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if serves && strings.TrimSuffix(r.URL.Path, "/") == path {
				serve(s, w, r)
				return
			}
			next.ServeHTTP(w, r.WithContext(rejoin.ContextWithServer(r.Context(), s)))
		})
	}
}

// serve lends the request's route to its tool. chi takes its route context back when the request is over, and gives it to another one: a
// tool that reads it later would find that one's tenant. So it is copied before a tool can start.
func serve(s *rejoin.Server, w http.ResponseWriter, r *http.Request) {
	if at := chi.RouteContext(r.Context()); at != nil {
		r = r.WithContext(lend(r.Context(), at))
	}
	s.Serve(w, r)
}

// lent is the context of a request, but for chi's route context, which is a copy. All is one allocation: this is done for every call.
type lent struct {
	context.Context

	route chi.Context
	room  [4]string // for the route's lists; enough for a router or two, and a parameter
}

// Value is that of a context.Context.
func (l *lent) Value(key any) any {
	if key == chi.RouteCtxKey {
		return &l.route
	}
	return l.Context.Value(key)
}

// lend copies all that chi lets others see. The rest is chi's own state while it looks for a route, and shares memory with the next request.
func lend(ctx context.Context, at *chi.Context) *lent {
	l := &lent{Context: ctx, route: chi.Context{Routes: at.Routes, RoutePath: at.RoutePath, RouteMethod: at.RouteMethod}}
	room := l.room[:]
	if n := len(at.URLParams.Keys) + len(at.URLParams.Values) + len(at.RoutePatterns); n > len(room) {
		room = make([]string, n)
	}
	l.route.URLParams.Keys, room = move(room, at.URLParams.Keys)
	l.route.URLParams.Values, room = move(room, at.URLParams.Values)
	l.route.RoutePatterns, _ = move(room, at.RoutePatterns)
	return l
}

// move copies a list into room, and returns it and the room that is left. Who appends to the list does not get into that.
func move(room, list []string) (moved, left []string) {
	n := copy(room, list)
	return room[:n:n], room[n:]
}
