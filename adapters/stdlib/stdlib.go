// Package stdadapter mounts a rejoin server on net/http.
//
//	stdadapter.Register(mux, "/mcp", srv)
//
// Do not put middleware around the endpoint that buffers whole responses, such as http.TimeoutHandler. Nothing can be streamed
// through it, so calls are answered with plain JSON.
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

// Register serves path and path+"/", for all verbs and without a redirect. path may hold wildcards, but no method.
func Register(mux *http.ServeMux, path string, s *rejoin.Server) {
	path = strings.TrimSuffix(path, "/")
	h := New(s)
	if path != "" {
		mux.Handle(path, h)
	}
	mux.Handle(path+"/{$}", h)
}

// Middleware serves path and path+"/". It passes all other requests on with s in their context, where rejoin.ServerFromContext finds
// it. path begins at the root and holds no wildcards; "" serves nothing.
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

// PathValue is r.PathValue for a tool's context. It returns "" if there is no such value.
func PathValue(ctx context.Context, name string) string {
	v, _ := ctx.Value(pathValuesKey{}).(map[string]string)
	return v[name]
}

type pathValuesKey struct{}

// serve copies the request's path values for its tool. net/http keeps them in the request, which must not outlive the handler.
func serve(s *rejoin.Server, w http.ResponseWriter, r *http.Request) {
	if values := copyPathValues(r); values != nil {
		r = r.WithContext(context.WithValue(r.Context(), pathValuesKey{}, values))
	}
	s.Serve(w, r)
}

// copyPathValues copies the path values. net/http gives their names only as part of the pattern.
func copyPathValues(r *http.Request) map[string]string {
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
