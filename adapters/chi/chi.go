// Package chiadapter mounts a rejoin server on chi.
//
//	r.Mount("/mcp", chiadapter.New(srv))
//
// chi.URLParamFromCtx(ctx, name) works in a tool at any time. Values that chi's middleware puts into the request's context are passed on
// as they are.
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

// Register serves path and path+"/", for all verbs and without a redirect. path may hold parameters.
func Register(r chi.Router, path string, s *rejoin.Server) {
	path = strings.TrimSuffix(path, "/")
	h := New(s)
	if path != "" {
		r.Handle(path, h)
	}
	r.Handle(path+"/", h)
}

// Middleware serves path and path+"/". It passes all other requests on with s in their context, where rejoin.ServerFromContext finds
// it. path begins at the root and holds no parameters; "" serves nothing. chi runs a router's middleware only if the router has a route.
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

// serve copies the request's route for its tool, before the tool can start. chi reuses a route context for another request as soon as the
// request is over: a tool that reads it later would find the other request's tenant.
func serve(s *rejoin.Server, w http.ResponseWriter, r *http.Request) {
	if route := chi.RouteContext(r.Context()); route != nil {
		r = r.WithContext(copyRoute(r.Context(), route))
	}
	s.Serve(w, r)
}

// requestContext is a request's context with a copy of chi's route context. It is a single allocation, because every call makes one.
type requestContext struct {
	context.Context

	route chi.Context
	buf   [4]string // for the route's lists; enough for a router or two and a parameter
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	if key == chi.RouteCtxKey {
		return &c.route
	}
	return c.Context.Value(key)
}

// copyRoute copies all that a route context exports. The rest is chi's own state during routing, and shares memory with the next request.
func copyRoute(ctx context.Context, route *chi.Context) *requestContext {
	c := &requestContext{Context: ctx, route: chi.Context{Routes: route.Routes, RoutePath: route.RoutePath, RouteMethod: route.RouteMethod}}
	buf := c.buf[:]
	if n := len(route.URLParams.Keys) + len(route.URLParams.Values) + len(route.RoutePatterns); n > len(buf) {
		buf = make([]string, n)
	}
	c.route.URLParams.Keys, buf = copyInto(buf, route.URLParams.Keys)
	c.route.URLParams.Values, buf = copyInto(buf, route.URLParams.Values)
	c.route.RoutePatterns, _ = copyInto(buf, route.RoutePatterns)
	return c
}

// copyInto copies a list into buf, and returns the copy and the rest of buf. Appending to the copy does not write into that rest.
func copyInto(buf, list []string) (copied, rest []string) {
	n := copy(buf, list)
	return buf[:n:n], buf[n:]
}
