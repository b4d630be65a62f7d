// Package ginadapter mounts a rejoin server on gin.
//
//	ginadapter.Register(r.Group("", auth), "/mcp", srv)
//
// gin reuses its Context for another request as soon as a request is over. So a tool reads copies of what middleware set and of path
// parameters, with Get and Param. Do not make a *gin.Context the parent of a request's own context.
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

// Register serves path and path+"/", for all verbs that gin knows and without a redirect. path may hold parameters.
func Register(r gin.IRoutes, path string, s *rejoin.Server) {
	path = strings.TrimSuffix(path, "/")
	h := New(s)
	if path != "" || !endsInSlash(r) {
		r.Any(path, h)
	}
	r.Any(path+"/", h)
}

// endsInSlash reports whether "" and "/" name the same path in r. In an engine they do, in most groups they do not.
func endsInSlash(r gin.IRoutes) bool {
	group, ok := r.(interface{ BasePath() string })
	return !ok || strings.HasSuffix(group.BasePath(), "/")
}

// Middleware serves path and path+"/". It passes all other requests on with s in their context, where rejoin.ServerFromContext finds
// it in c.Request.Context(). path begins at the root and holds no parameters; "" serves nothing.
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

// values is a request's context, with copies of what gin reuses.
type values struct {
	context.Context

	keys   map[any]any
	params gin.Params
}

// Value implements context.Context.
func (v *values) Value(key any) any {
	if key == (valuesKey{}) {
		return v
	}
	return v.Context.Value(key)
}

func serve(s *rejoin.Server, c *gin.Context) {
	copied := c.Copy() // it copies the keys under gin's lock; only keys and parameters are kept
	v := &values{Context: c.Request.Context(), keys: copied.Keys, params: copied.Params}
	s.Serve(c.Writer, c.Request.WithContext(v))
}
