package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// What a process tells the demo.
const (
	started = "started" // its address
	got     = "got"     // the id of a request
	opened  = "opened"  // a session was opened
	adopted = "adopted" // a session was adopted
)

// requestID names a request of the demo's client on its whole way.
const requestID = "X-Request-Id"

// reporter tells the demo what happens in this process, and waits until the demo knows. So it knows the way of a request before the client gets the
// head of the answer.
type reporter struct{ url, name string }

func (r reporter) tell(what, value string) {
	res, err := http.PostForm(r.url, url.Values{"name": {r.name}, "what": {what}, "value": {value}})
	if err == nil { // else the demo has ended, and so does this process
		res.Body.Close()
	}
}

// middleware tells which requests come here, from the balancer or from another process.
func (r reporter) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if id := q.Header.Get(requestID); id != "" {
			r.tell(got, id)
		}
		next.ServeHTTP(w, q)
	})
}

// work is a step of the tool: it takes a moment, and says where it was made.
func (r reporter) work(ctx context.Context, _ int) (string, error) {
	timer := time.NewTimer(pace)
	defer timer.Stop()
	select {
	case <-timer.C:
		return "at " + r.name, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// pace is the time of a step of the tool.
const pace = 400 * time.Millisecond

// watched is an app that tells which sessions are opened and adopted.
type watched struct {
	rejoin.App

	reporter reporter
}

// Open implements rejoin.App. Here only an adopted session has a state: the first call of the demo's client saves one.
func (a watched) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	app, err := a.App.Open(r, s, state)
	what := opened
	if state != nil {
		what = adopted
	}
	if err == nil {
		a.reporter.tell(what, "")
	}
	return app, err
}
