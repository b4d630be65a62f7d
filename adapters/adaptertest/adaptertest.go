package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rejoin-mcp/rejoin"
)

// UserHeader is the request header that holds the user, for Subject.Mount.
const UserHeader = "X-User"

// Subject is the adapter that is tested.
type Subject struct {
	// Mount returns a router that serves s at path, and nothing else. Around the endpoint it has the router's usual recover
	// middleware, and middleware that reads the user from UserHeader and sets it under "user" with the router's own setter. mw is
	// net/http middleware to put around the router, the first one outermost.
	//
	// path is "/mcp", "/a/b/mcp" or "/{tenant}/mcp"; Mount translates it into the router's syntax.
	Mount func(t testing.TB, s *rejoin.Server, path string, mw ...func(http.Handler) http.Handler) http.Handler
	// Lend returns a router with the adapter's Middleware for path, and an ordinary GET route that calls h with the router's request
	// and response. path may be "". Lend is nil if the adapter has no such middleware; then its rules are skipped.
	Lend func(t testing.TB, s *rejoin.Server, path, route string, h http.HandlerFunc) http.Handler
	// Param reads a path parameter from a tool's context. It returns "" if there is none.
	Param func(ctx context.Context, name string) string
	// Value reads the string that Mount's middleware set under name, and reports whether it set one. It is the adapter's Get, if the
	// adapter has one.
	Value func(ctx context.Context, name string) (value any, ok bool)
}

// Run runs the exam.
func Run(t *testing.T, s Subject) {
	t.Helper()
	if s.Mount == nil || s.Param == nil || s.Value == nil {
		t.Fatal("Subject needs Mount, Param and Value")
	}
	for _, r := range rules {
		if why := r.skip(s); why != "" {
			t.Logf("not asked: %q: %s", r.name, why)
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { r.run(&exam{TB: t, Subject: s}) })
		})
	}
}

// Faults runs the rules with these names and returns their complaints, one line each, instead of failing the test. Use it to show that a
// wrong Subject fails. It fails the test only if there is no rule of a name.
func Faults(t *testing.T, s Subject, names ...string) (complaints []string) {
	t.Helper()
	for _, name := range names {
		i := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
		if i < 0 {
			t.Fatalf("there is no rule %q", name)
		}
		synctest.Test(t, func(t *testing.T) {
			rec := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer rec.recover()
				rules[i].run(&exam{TB: rec, Subject: s})
			}()
			<-done
			complaints = append(complaints, rec.all()...)
		})
	}
	return complaints
}

// The names of the rules, for Faults.
const (
	Paths      = "both spellings of the path on every verb"
	Refusals   = "every refusal is the server's own"
	Answers    = "every answer is the server's own"
	Polling    = "a call survives its connections"
	Own        = "a tool reads its own values when its request is over"
	OwnAtOnce  = "a tool reads its own values among many"
	Tasks      = "a tool reads its own values when its call has become a task"
	TasksMany  = "a tool reads its own values among many tasks"
	TasksWrap  = "a call becomes a task through what wraps the response"
	Unset      = "a tool reads nothing that was not set"
	Late       = "what a tool sends late reaches its own client alone"
	Panics     = "a panic is one error"
	Flush      = "the first event leaves at once"
	Buffered   = "through what cannot flush comes plain JSON"
	TimeOuts   = "the time-outs of the server cut nothing"
	Outer      = "values of outer middleware outlive the request and its end does not"
	Modern     = "the modern handler reads its own values and streams"
	Lends      = "ordinary routes find the server"
	LendsAlone = "an empty path serves nothing"
)

// The names of the rules in which requests go to two servers of one cluster in turn (rejoin.Config.Cluster), each with a router of its own.
const (
	PathsAcross     = Paths + across
	RefusalsAcross  = Refusals + across
	AnswersAcross   = Answers + across
	PollingAcross   = Polling + across
	OwnAcross       = Own + across
	OwnAtOnceAcross = OwnAtOnce + across
	UnsetAcross     = Unset + across
	LateAcross      = Late + across
	PanicsAcross    = Panics + across
	FlushAcross     = Flush + across
	BufferedAcross  = Buffered + across
	TimeOutsAcross  = TimeOuts + across
	OuterAcross     = Outer + across
	HeadAcross      = "a middleware's head is not doubled" + across

	across = ", through another process"
)

// mount is Mount in the form that rejointest needs.
func (e *exam) mount(path string, mw ...func(http.Handler) http.Handler) func(*rejoin.Server) http.Handler {
	return func(s *rejoin.Server) http.Handler { return e.Mount(e, s, path, mw...) }
}

// principal is a Config.Principal that reads what Mount's middleware set.
func (e *exam) principal(r *http.Request) string { return e.user(r.Context()) }

// user is what Mount's middleware set, or "".
func (e *exam) user(ctx context.Context) string {
	value, _ := e.Value(ctx, "user")
	name, _ := value.(string)
	return name
}

// recorder records failures instead of failing the test. A fatal one ends the goroutine.
type recorder struct {
	testing.TB
	mu         sync.Mutex
	complaints []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *recorder) Helper()           {}

// recover is deferred in the goroutine of the rule, because a Subject may panic.
func (r *recorder) recover() {
	if p := recover(); p != nil {
		r.Errorf("panic: %v", p)
	}
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.complaints
}
