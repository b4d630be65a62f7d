// Package echoadapter mounts a rejoin server on echo v4.
//
//	echoadapter.Register(e.Group("", auth), "/mcp", srv, "user")
//
// echo gives its Context to another request as soon as one is over. So a tool reads what middleware set, and path parameters, from
// copies: Get and Param.
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

// New returns the endpoint as a handler. keys are the names in echo's store that tools may read later with Get: echo
// cannot list them, so they must be named.
func New(s *rejoin.Server, keys ...string) echo.HandlerFunc {
	named := &names{keys: slices.Clone(keys)}
	return func(c echo.Context) error {
		serve(s, c, named)
		return nil // what there was to say has been said: echo's error handler must not write into a stream
	}
}

// Router is what *echo.Echo and *echo.Group have in common.
type Router interface {
	Any(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) []*echo.Route
}

// Register serves path and path+"/", all verbs that echo knows, without a redirect. path may hold parameters. keys are as for New.
func Register(r Router, path string, s *rejoin.Server, keys ...string) {
	path = strings.TrimSuffix(path, "/")
	h := New(s, keys...)
	r.Any(path, h)
	r.Any(path+"/", h)
}

// Middleware serves path (from the root, no parameters; "" serves nothing) and puts s into the context of all other requests, where
// rejoin.ServerFromContext finds it by c.Request().Context(). keys are as for New.
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

// Get is echo.Context.Get for a tool's context, and for Config.Principal. It reports false where middleware set nothing, or nil. Only the
// keys that were named are there: asking for another one is logged, once for each New, Register or Middleware.
func Get(ctx context.Context, key string) (value any, ok bool) {
	v, ok := ctx.Value(valuesKey{}).(*values)
	if !ok {
		return nil, false
	}
	if i := slices.Index(v.named.keys, key); i >= 0 {
		return v.store[i], v.store[i] != nil
	}
	v.named.warn.Do(func() {
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
		if i := slices.Index(v.names, name); i >= 0 {
			return v.params[i]
		}
	}
	return ""
}

// names are the keys that an endpoint copies.
type names struct {
	keys []string
	warn sync.Once // that another one was asked for
}

type valuesKey struct{}

// values is the context of a request, with copies of what echo takes back.
type values struct {
	context.Context

	named         *names
	store         []any // the values of its keys
	names, params []string
}

// Value is that of a context.Context.
func (v *values) Value(key any) any {
	if key == (valuesKey{}) {
		return v
	}
	return v.Context.Value(key)
}

func serve(s *rejoin.Server, c echo.Context, named *names) {
	r := c.Request()
	v := &values{Context: r.Context(), named: named, names: slices.Clone(c.ParamNames()), params: slices.Clone(c.ParamValues())}
	if len(named.keys) > 0 {
		v.store = make([]any, len(named.keys))
		for i, key := range named.keys {
			v.store[i] = c.Get(key)
		}
	}
	r = r.WithContext(v)
	if r.Method == http.MethodPost && r.Body != nil {
		r.Body = &body{r.Body}
	}
	s.Serve(c.Response(), r)
}

// body says in net/http's words that it is too large, where echo's BodyLimit says it in echo's.
type body struct{ io.ReadCloser }

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	var he *echo.HTTPError // it escapes: not for every read
	if errors.As(err, &he) && he.Code == http.StatusRequestEntityTooLarge {
		err = &http.MaxBytesError{}
	}
	return n, err
}
