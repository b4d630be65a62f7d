// Package echoadapter mounts a rejoin server on echo v4.
//
//	echoadapter.Register(e.Group("", auth), "/mcp", srv, "user")
//
// echo reuses its Context for another request as soon as a request is over. So a tool reads copies of what middleware set and of path
// parameters, with Get and Param.
package echoadapter

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/rejoin-mcp/rejoin"
)

// New returns the endpoint as a handler. keys are the keys of echo's store that tools may read later with Get. They must be named, because
// echo cannot list them.
func New(s *rejoin.Server, keys ...string) echo.HandlerFunc {
	copied := &keyList{keys: slices.Clone(keys)}
	return func(c echo.Context) error {
		serve(s, c, copied)
		return nil // the response is written: echo's error handler must not write into a stream
	}
}

// Router is what Register needs. *echo.Echo and *echo.Group implement it.
type Router interface {
	Any(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) []*echo.Route
}

// Register serves path and path+"/", for all verbs that echo knows and without a redirect. path may hold parameters. keys are as for New.
func Register(r Router, path string, s *rejoin.Server, keys ...string) {
	path = strings.TrimSuffix(path, "/")
	h := New(s, keys...)
	r.Any(path, h)
	r.Any(path+"/", h)
}

// Middleware serves path and path+"/". It passes all other requests on with s in their context, where rejoin.ServerFromContext finds
// it in c.Request().Context(). path begins at the root and holds no parameters; "" serves nothing. keys are as for New.
func Middleware(path string, s *rejoin.Server, keys ...string) echo.MiddlewareFunc {
	serves := path != ""
	path = strings.TrimSuffix(path, "/")
	h := New(s, keys...)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if serves && strings.TrimSuffix(r.URL.Path, "/") == path {
				return h(c)
			}
			c.SetRequest(r.WithContext(rejoin.ContextWithServer(r.Context(), s)))
			return next(c)
		}
	}
}

// Get is echo.Context.Get for a tool's context, and for Config.Principal. It reports false if middleware set nothing, or set nil. It finds
// only the keys that were named. Asking for another key is logged once for each New, Register or Middleware.
func Get(ctx context.Context, key string) (value any, ok bool) {
	v, ok := ctx.Value(valuesKey{}).(*values)
	if !ok {
		return nil, false
	}
	if i := slices.Index(v.list.keys, key); i >= 0 {
		return v.keyValues[i], v.keyValues[i] != nil
	}
	v.list.warn.Do(func() {
		log := slog.Default()
		if session := rejoin.HandleFromContext(ctx).Session(); session != nil {
			log = session.Logger()
		}
		log.Warn("rejoin: a tool asks echo's store for a key that was not named: add it to New, Register or Middleware (said once)", "key", key)
	})
	return nil, false
}

// Param is echo.Context.Param for a tool's context, and for Config.Principal.
func Param(ctx context.Context, name string) string {
	if v, ok := ctx.Value(valuesKey{}).(*values); ok {
		if i := slices.Index(v.paramNames, name); i >= 0 {
			return v.paramValues[i]
		}
	}
	return ""
}

// keyList holds the keys that an endpoint copies.
type keyList struct {
	keys []string
	warn sync.Once // a tool has asked for another key
}

type valuesKey struct{}

// values is a request's context, with copies of what echo reuses.
type values struct {
	context.Context

	list                    *keyList
	keyValues               []any // of list.keys
	paramNames, paramValues []string
}

// Value implements context.Context.
func (v *values) Value(key any) any {
	if key == (valuesKey{}) {
		return v
	}
	return v.Context.Value(key)
}

func serve(s *rejoin.Server, c echo.Context, list *keyList) {
	r := c.Request()
	v := &values{Context: r.Context(), list: list, paramNames: slices.Clone(c.ParamNames()), paramValues: slices.Clone(c.ParamValues())}
	if len(list.keys) > 0 {
		v.keyValues = make([]any, len(list.keys))
		for i, key := range list.keys {
			v.keyValues[i] = c.Get(key)
		}
	}
	r = r.WithContext(v)
	if r.Method == http.MethodPost && r.Body != nil {
		r.Body = &body{r.Body}
	}
	s.Serve(c.Response(), r)
}

// body turns the error of echo's BodyLimit for a body that is too large into net/http's.
type body struct{ io.ReadCloser }

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	var he *echo.HTTPError // it escapes to the heap, so it is declared after the usual returns
	if errors.As(err, &he) && he.Code == http.StatusRequestEntityTooLarge {
		err = &http.MaxBytesError{}
	}
	return n, err
}
