package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

const users = 200

// user is a client with its own session, tenant and call.
type user struct {
	name, tenant    string
	session, cursor string
	task            string
	retry           time.Duration
	do              func(*http.Request) (answer, error)
}

func newUser(i int, do func(*http.Request) (answer, error)) *user {
	return &user{name: fmt.Sprint("user-", i), tenant: fmt.Sprint("tenant-", i), do: do}
}

// who is what the user's tool must read.
func (u *user) who() string { return u.name + " of " + u.tenant }

func (u *user) request(method, body string) *http.Request {
	r := request(method, "/"+u.tenant+"/mcp", body)
	r.Header.Set(UserHeader, u.name)
	r.Header[http.CanonicalHeaderKey(sessionHeader)] = nil
	if u.session != "" {
		r.Header.Set(sessionHeader, u.session)
	}
	return r
}

func (u *user) open() error {
	a, err := u.do(u.request(http.MethodPost, initialize))
	if u.session = a.header.Get(sessionHeader); err != nil || a.status != http.StatusOK || u.session == "" {
		return fmt.Errorf("initialize: %+v, %w", a, err)
	}
	a, err = u.do(u.request(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err != nil || a.status != http.StatusAccepted {
		return fmt.Errorf("initialized: %+v, %w", a, err)
	}
	return nil
}

// call starts a call, whose tool closes the stream at once.
func (u *user) call() error {
	s, err := u.stream(u.request(http.MethodPost,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+u.who()+`","_meta":{"progressToken":2}}}`))
	u.cursor, u.retry = s.cursor, s.retry
	if err == nil && (len(s.messages) > 0 || s.cursor == "" || s.retry == 0) {
		return fmt.Errorf("the call's stream was not closed before there was anything: %+v", s)
	}
	return err
}

// poll polls, and checks that what it gets belongs to the user.
func (u *user) poll() error {
	r := u.request(http.MethodGet, "")
	r.Header.Set(cursorHeader, u.cursor)
	s, err := u.stream(r)
	if err != nil {
		return err
	}
	if len(s.messages) != 2 {
		return fmt.Errorf("%d messages, not 2", len(s.messages))
	}
	var result string
	_ = json.Unmarshal(s.messages[1].Result, &result)
	return errors.Join(u.wantOwn("its progress", s.messages[0].Params.Message), u.wantOwn("its result", result))
}

// wantOwn checks that text names the user.
func (u *user) wantOwn(what, text string) error {
	if text != u.who() {
		return fmt.Errorf("%s names %s", what, text)
	}
	return nil
}

func (u *user) stream(r *http.Request) (stream, error) {
	a, err := u.do(r)
	s, ok := parseStream(a.body)
	if err == nil && (!ok || a.header.Get("Content-Type") != "text/event-stream") {
		err = fmt.Errorf("%s: not a stream: %+v", r.Method, a)
	}
	return s, err
}

// until waits for c, or for the end of ctx if the rule has failed.
func until(ctx context.Context, c <-chan struct{}) {
	select {
	case <-c:
	case <-ctx.Done():
	}
}

// userApp is an app whose tools close their stream, wait, and then report who called them.
func (e *exam) userApp(wait func(context.Context)) rejoin.App {
	return app(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		if err := h.CloseStream(0); err != nil {
			return nil, err
		}
		wait(ctx)
		_ = h.Progress(1, 0, e.who(ctx))
		return e.who(ctx), nil
	})
}

func (e *exam) who(ctx context.Context) string {
	return e.user(ctx) + " of " + e.Param(ctx, "tenant")
}

// report reports how many users had faults, and the first few of those.
func (e *exam) report(faults map[*user]error) {
	e.Helper()
	if len(faults) == 0 {
		return
	}
	first := make([]string, 0, 3)
	for u, err := range faults {
		if first = append(first, u.who()+": "+err.Error()); len(first) == cap(first) {
			break
		}
	}
	e.Errorf("%d of %d users did not get their own: %s", len(faults), users, strings.Join(first, "; "))
}

// tenantServer mounts a server under a path with a tenant.
func (e *exam) tenantServer(a rejoin.App, retry time.Duration) *rejointest.Client {
	return e.start(a, rejointest.Config{
		Path: "/nobody/mcp", Header: http.Header{UserHeader: {"nobody"}},
		Server: rejoin.Config{Principal: e.principal, Policy: rejoin.Policy{Retry: retry}}, Handler: e.mount("/{tenant}/mcp"),
	})
}

// Two hundred users, each of another tenant, call a tool. Their requests end, and the router reuses its contexts for hundreds of other
// requests. Then the tools read their values.
func ownValues(e *exam) {
	release := make(chan struct{})
	c := e.tenantServer(e.userApp(func(ctx context.Context) { until(ctx, release) }), time.Second)
	do := func(r *http.Request) (answer, error) { return e.send(c, r), nil }
	all := make([]*user, users)
	for i := range all {
		all[i] = newUser(i, do)
		if err := all[i].open(); err != nil {
			e.Fatalf("%s: %v", all[i].who(), err)
		}
	}
	principals := map[string]bool{}
	for _, server := range e.servers(c) {
		for s := range server.Sessions() {
			principals[s.Principal] = true
		}
	}
	for _, u := range all {
		if !principals[u.name] {
			e.Fatalf("Config.Principal does not see what Mount's middleware set: no session belongs to %s", u.name)
		}
		if err := u.call(); err != nil {
			e.Fatalf("%s: %v", u.who(), err)
		}
	}
	for i := range users {
		other := newUser(users+i, do)
		_, _ = do(other.request(http.MethodPost, ping)) // refused: no session
		r := other.request(http.MethodGet, "")
		r.URL.Path = "/" + other.tenant + "/no/such/route"
		if a, _ := do(r); a.status != http.StatusNotFound {
			e.Errorf("GET %s: %+v", r.URL.Path, a)
		}
		if i%8 == 0 {
			stream := c.Do(all[i%users].request(http.MethodGet, "")) // it stays open while the tools read
			defer stream.Body.Close()
		}
	}
	close(release)
	synctest.Wait()
	faults := map[*user]error{}
	for i, u := range all {
		thief := u.request(http.MethodGet, "")
		thief.Header.Set(UserHeader, all[(i+1)%users].name)
		thief.Header.Set(cursorHeader, u.cursor)
		if a := e.send(c, thief); a.status != http.StatusNotFound {
			e.Fatalf("another user polls the stream of %s: %+v", u.who(), a)
		}
		if err := u.poll(); err != nil {
			faults[u] = err
		}
	}
	e.report(faults)
}

// The same test from two hundred goroutines, for the race detector.
func ownValuesAtOnce(e *exam) {
	e.tenantServer(e.userApp(func(ctx context.Context) {
		elapse(time.Duration(len(e.who(ctx))) * time.Millisecond)
	}), time.Millisecond)
	e.usersAtOnce(func(u *user) error {
		err := u.open()
		if err == nil {
			err = u.call()
		}
		if err == nil {
			elapse(u.retry)
			err = u.poll()
		}
		return err
	})
}

// usersAtOnce lets many users do the same at once, each in a goroutine of its own, and reports their faults. They call the last handler directly.
func (e *exam) usersAtOnce(act func(u *user) error) {
	do := func(r *http.Request) (answer, error) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		w := httptest.NewRecorder()
		e.handler.ServeHTTP(w, r.WithContext(ctx))
		return answer{w.Code, w.Header(), w.Body.String()}, nil
	}
	var mu sync.Mutex
	var work sync.WaitGroup
	faults := map[*user]error{}
	for i := range users {
		work.Go(func() {
			u := newUser(i, do)
			if err := act(u); err != nil {
				mu.Lock()
				defer mu.Unlock()
				faults[u] = err
			}
		})
	}
	work.Wait()
	e.report(faults)
}

// Values that were set are distinguished from values that were not, in a call and outside of one.
func unsetValues(e *exam) {
	look := func(ctx context.Context, where, name string, set bool) {
		value, ok := e.Value(ctx, name)
		if ok != set || (value != nil) != set {
			e.Errorf("%s Value(%q) is %v, %v", where, name, value, ok)
		}
	}
	c := e.start(app(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		look(ctx, "in a call", "user", true)
		look(ctx, "in a call", "nobody set this", false)
		if got := e.Param(ctx, "no such parameter"); got != "" {
			e.Errorf("in a call a parameter that the path does not have is %q", got)
		}
		return struct{}{}, nil
	}), rejointest.Config{
		Header: http.Header{UserHeader: {"ann"}}, Handler: e.mount("/mcp"), Server: rejoin.Config{Logger: slog.New(slog.DiscardHandler)},
	})
	c.CallTool("x", nil).Result()
	look(context.Background(), "outside a call", "user", false)
	if got := e.Param(context.Background(), "tenant"); got != "" {
		e.Errorf("outside a call a parameter is %q", got)
	}
}

type outerKey struct{}

// The call's context has the values of the request's context, but does not end with it.
func outerValues(e *exam) {
	outer := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancel(context.WithValue(r.Context(), outerKey{}, r.Header.Get("X-Outer")))
			defer cancel() // as any middleware does
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
	tools := make(chan context.Context, 10)
	end := make(chan struct{})
	c := e.start(app(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		tools <- ctx
		_ = rejoin.HandleFromContext(ctx).Progress(1, 0, "")
		until(ctx, end)
		return nil, nil
	}), rejointest.Config{Handler: e.mount("/mcp", outer)})
	for i := range 3 {
		r := request(http.MethodPost, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":"o%d","method":"x","params":{"_meta":{"progressToken":1}}}`, i))
		value := fmt.Sprint("value ", i)
		r.Header.Set("X-Outer", value)
		res := c.Do(r)
		tool := <-tools
		look := func(when string) {
			if got := tool.Value(outerKey{}); got != value {
				e.Errorf("%s the tool finds %v where outer middleware put %q", when, got, value)
			}
			if err := tool.Err(); err != nil {
				e.Errorf("%s the tool's context is over: %v", when, err)
			}
		}
		look("while its request lasts,")
		_ = res.Body.Close() // the client is gone
		elapse(time.Minute)
		look("after its request")
	}
	close(end)
}
