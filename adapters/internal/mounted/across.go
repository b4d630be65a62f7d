package mounted

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/adapters/internal/pair"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Form is one way to mount an endpoint.
type Form struct {
	Mount func(*rejoin.Server) http.Handler
	// Path is that of the endpoint; {tenant} stands for the tenant.
	Path string
	// Tenants are what a tool reads, by how the tenant is written in a request's path.
	Tenants map[string]string
}

// Stripped is a form whose router is mounted below a prefix, which http.StripPrefix takes off.
func Stripped(prefix string, f Form) Form {
	mount := f.Mount
	f.Mount = func(s *rejoin.Server) http.Handler { return http.StripPrefix(prefix, mount(s)) }
	return f
}

// Reader reads in a tool what the middleware and the router have set. User is also the principal.
type Reader struct{ User, Tenant func(context.Context) string }

const (
	users = 200
	// calls is how many calls each user makes, in all forms of an adapter together.
	calls = 60
)

// UserHeader is the field from which the forms' middleware reads the user, as in package adaptertest.
const UserHeader = "X-User"

type uriKey struct{}

// told is what a tool tells: who has called it, and with which request URI.
type told struct{ User, Tenant, URI string }

// ThroughAnotherProcess checks each form with two servers of one cluster, where every request goes to another one than the request before: a tool finds
// the tenant as it was written, and the request URI as it came; and many users who call at once each find their own.
func ThroughAnotherProcess(t *testing.T, forms map[string]Form, who Reader) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			for written, tenant := range form.Tenants {
				synctest.Test(t, func(t *testing.T) {
					x := newAcross(t, form, who)
					for _, query := range []string{"", "?", "?q=a%2Fb+c&q=%20", "?x=1;2"} {
						for _, slash := range []string{"", "/"} {
							x.spelling(written, tenant, slash+query)
						}
					}
				})
			}
			synctest.Test(t, func(t *testing.T) { newAcross(t, form, who).many(calls / len(forms)) })
		})
	}
}

// across is a pair of servers that are mounted in one form.
type across struct {
	t     *testing.T
	form  Form
	pair  *pair.Pair
	calls atomic.Int64 // that tools have got
}

func newAcross(t *testing.T, form Form, who Reader) *across {
	t.Helper()
	x := &across{t: t, form: form}
	app := rejoin.NewApp(info, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		x.calls.Add(1)
		uri, _ := ctx.Value(uriKey{}).(string)
		return told{who.User(ctx), who.Tenant(ctx), uri}, nil
	})
	cfg, p := pair.Of(t, app, rejointest.Config{
		Server: rejoin.Config{Principal: func(r *http.Request) string { return who.User(r.Context()) }},
		Path:   strings.ReplaceAll(form.Path, "{tenant}", "nobody"), Header: http.Header{UserHeader: {"nobody"}},
		Handler: func(s *rejoin.Server) http.Handler {
			router := form.Mount(s)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				router.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), uriKey{}, r.RequestURI)))
			})
		},
	})
	x.pair = p
	rejointest.New(t, app, cfg)
	return x
}

// caller is a user with a session.
type caller struct {
	x                  *across
	name, uri, session string
}

const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`

func (c *caller) post(body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, c.uri, strings.NewReader(body)) // it parses the URI as a server does
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(UserHeader, c.name)
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	w := httptest.NewRecorder()
	c.x.pair.ServeHTTP(w, r)
	return w
}

// open opens a session.
func (c *caller) open() error {
	w := c.post(initialize)
	if c.session = w.Header().Get("Mcp-Session-Id"); c.session == "" {
		return fmt.Errorf("initialize: %d %s", w.Code, w.Body)
	}
	if w = c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); w.Code != http.StatusAccepted {
		return fmt.Errorf("initialized: %d %s", w.Code, w.Body)
	}
	return nil
}

// call calls a tool, and checks what it tells.
func (c *caller) call(id int, tenant string) error {
	w := c.post(fmt.Sprintf(call, id))
	var m struct {
		ID     int
		Result told
	}
	err := json.Unmarshal(w.Body.Bytes(), &m)
	if want := (told{c.name, tenant, c.uri}); err != nil || w.Code != http.StatusOK || m.ID != id || m.Result != want {
		return fmt.Errorf("call %d: %d %s, not %+v", id, w.Code, w.Body, want)
	}
	return nil
}

func (x *across) uri(tenant, tail string) string {
	return strings.ReplaceAll(x.form.Path, "{tenant}", tenant) + tail
}

// spelling makes two calls in a session, one of which goes through another process.
func (x *across) spelling(written, tenant, tail string) {
	c := &caller{x: x, name: "ann", uri: x.uri(written, tail)}
	if err := c.open(); err != nil {
		x.t.Errorf("%s: %v", c.uri, err)
		return
	}
	before := x.pair.Forwarded()
	for id := range 2 {
		if err := c.call(id, tenant); err != nil {
			x.t.Errorf("%s: %v", c.uri, err)
		}
	}
	if n := x.pair.Forwarded() - before; n != 1 {
		x.t.Errorf("%s: %d of two calls went through another process, not one", c.uri, n)
	}
}

// many lets many users, each of a tenant of its own if the path has one, make so many calls at once.
func (x *across) many(each int) {
	var work sync.WaitGroup
	var failed atomic.Int64
	before, called := x.pair.Forwarded(), x.calls.Load()
	for i := range users {
		work.Go(func() {
			tenant := ""
			if strings.Contains(x.form.Path, "{tenant}") {
				tenant = fmt.Sprint("tenant-", i)
			}
			c := &caller{x: x, name: fmt.Sprint("user-", i), uri: x.uri(tenant, "")}
			err := c.open()
			for id := 0; id < each && err == nil; id++ {
				err = c.call(id, tenant)
			}
			if err != nil && failed.Add(1) <= 3 {
				x.t.Errorf("%s of %s: %v", c.name, tenant, err)
			}
		})
	}
	work.Wait()
	if n := failed.Load(); n > 0 {
		x.t.Errorf("%d of %d users did not get their own", n, users)
	}
	if n := x.calls.Load() - called; n != int64(users*each) {
		x.t.Errorf("tools were called %d times, not %d", n, users*each)
	}
	if n := x.pair.Forwarded() - before; n != int64(users*(1+each/2)) {
		x.t.Errorf("%d requests went through another process, not %d", n, users*(1+each/2))
	}
}
