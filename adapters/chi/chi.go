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

// serve lends the request's parameters to its tool. chi takes its route context back when the request is over, and gives it to
// another one: a tool that reads it later would find that one's tenant.
func serve(s *rejoin.Server, w http.ResponseWriter, r *http.Request) {
	if at := chi.RouteContext(r.Context()); at != nil {
		r = r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, at.Clone()))
	}
	s.Serve(w, r)
}
