// Package ginadapter mounts a rejoin server on gin.
//
//	ginadapter.Register(r.Group("", auth), "/mcp", srv)
//
// gin gives its Context to another request as soon as one is over. So a tool reads what middleware set, and path parameters, from
// copies: Get and Param. Do not make a *gin.Context the parent of a request's own context.
package ginadapter

import (
	"context"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/rejoin-mcp/rejoin"
)

// New returns the endpoint as a handler.
func New(s *rejoin.Server) gin.HandlerFunc {
	return func(c *gin.Context) { serve(s, c) }
}

// Register serves path and path+"/", all verbs that gin knows, without a redirect. path may hold parameters.
func Register(r gin.IRoutes, path string, s *rejoin.Server) {
	path = strings.TrimSuffix(path, "/")
	h := New(s)
	if path != "" || !endsInSlash(r) {
		r.Any(path, h)
	}
	r.Any(path+"/", h)
}

// endsInSlash reports whether what "" names in r is the same as what "/" names: in an engine, and not in most groups.
func endsInSlash(r gin.IRoutes) bool {
	group, ok := r.(interface{ BasePath() string })
	return !ok || strings.HasSuffix(group.BasePath(), "/")
}

// Middleware serves path (from the root, no parameters; "" serves nothing) and puts s into the context of all other requests, where
// rejoin.ServerFromContext finds it by c.Request.Context().
func Middleware(path string, s *rejoin.Server) gin.HandlerFunc {
	serves := path != ""
	path = strings.TrimSuffix(path, "/")
	return func(c *gin.Context) {
		if serves && strings.TrimSuffix(c.Request.URL.Path, "/") == path {
			serve(s, c)
			c.Abort()
			return
		}
		c.Request = c.Request.WithContext(rejoin.ContextWithServer(c.Request.Context(), s))
		c.Next()
	}
}

// Get is gin.Context.Get for a tool's context, and for Config.Principal.
func Get(ctx context.Context, key any) (any, bool) {
	if v, ok := ctx.Value(valuesKey{}).(*values); ok {
		value, found := v.keys[key]
		return value, found
	}
	return nil, false
}

// Param is gin.Context.Param for a tool's context, and for Config.Principal.
func Param(ctx context.Context, name string) string {
	if v, ok := ctx.Value(valuesKey{}).(*values); ok {
		return v.params.ByName(name)
	}
	return ""
}

type valuesKey struct{}

// values is the context of a request, with copies of what gin takes back.
type values struct {
	context.Context

	keys   map[any]any
	params gin.Params
}

// Value is that of a context.Context.
func (v *values) Value(key any) any {
	if key == (valuesKey{}) {
		return v
	}
	return v.Context.Value(key)
}

func serve(s *rejoin.Server, c *gin.Context) {
	copied := c.Copy() // it copies the keys under gin's lock; the rest of it is not kept
	v := &values{Context: c.Request.Context(), keys: copied.Keys, params: copied.Params}
	s.Serve(c.Writer, c.Request.WithContext(v))
}
