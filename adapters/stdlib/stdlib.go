// Package stdadapter mounts a rejoin server on net/http.
//
//	stdadapter.Register(mux, "/mcp", srv)
//
// Middleware that buffers whole responses, such as http.TimeoutHandler, must not be around the endpoint: through it nothing can
// be streamed, and calls are answered with plain JSON.
package stdadapter

import (
	"context"
	"net/http"
	"strings"

	"github.com/rejoin-mcp/rejoin"
)

// New returns the endpoint as a handler.
func New(s *rejoin.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(s, w, r) })
}

// Register serves path and path+"/", all verbs, without a redirect. path may hold wildcards, but no method.
func Register(mux *http.ServeMux, path string, s *rejoin.Server) {
	path = strings.TrimSuffix(path, "/")
	h := New(s)
	if path != "" {
		mux.Handle(path, h)
	}
	mux.Handle(path+"/{$}", h)
}

// Middleware serves path (from the root, no wildcards; "" serves nothing) and puts s into the context of all other requests, where
// rejoin.ServerFromContext finds it.
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

// PathValue is r.PathValue for a tool's context. "" where there is none.
func PathValue(ctx context.Context, name string) string {
	v, _ := ctx.Value(pathValues{}).(map[string]string)
	return v[name]
}

type pathValues struct{}

// serve lends the request's path values to its tool: net/http keeps them in the request, which must not outlive the handler.
func serve(s *rejoin.Server, w http.ResponseWriter, r *http.Request) {
	if values := valuesOf(r); values != nil {
		r = r.WithContext(context.WithValue(r.Context(), pathValues{}, values))
	}
	s.Serve(w, r)
}

// valuesOf copies the path values, whose names net/http gives only as part of the pattern.
func valuesOf(r *http.Request) map[string]string {
	var values map[string]string
	for rest := r.Pattern; ; {
		_, after, ok := strings.Cut(rest, "{")
		if !ok {
			return values
		}
		name, tail, ok := strings.Cut(after, "}")
		if !ok {
			return values
		}
		rest = tail
		name = strings.TrimSuffix(name, "...")
		if name == "$" {
			continue
		}
		if values == nil {
			values = map[string]string{}
		}
		values[name] = r.PathValue(name)
	}
}
