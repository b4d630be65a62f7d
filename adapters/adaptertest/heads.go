package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// setsHead sets fields as middleware does: for browsers, caches, tracing.
func setsHead(process string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name, values := range headOf(process) {
				for _, value := range values {
					w.Header().Add(name, value)
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

func headOf(process string) http.Header {
	return http.Header{
		"Access-Control-Allow-Origin": {"https://app.example"}, "Access-Control-Expose-Headers": {"Mcp-Session-Id"}, "Vary": {"Origin", "Accept-Encoding"},
		"X-Frame-Options": {"DENY"}, "Set-Cookie": {"a=1", "b=2"}, "X-Request-Id": {process}, "Server-Timing": {"app;desc=" + process},
	}
}

// The client gets the fields that the middleware of the process has set that it is connected to, and gets them once, whichever process answers its request.
func heads(e *exam) {
	var processes []string
	c := e.start(app(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		_ = rejoin.HandleFromContext(ctx).Progress(1, 0, "")
		elapse(time.Second)
		return "done", nil
	}), rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
		processes = append(processes, fmt.Sprint("p", len(processes)))
		return e.Mount(e, s, "/mcp", setsHead(processes[len(processes)-1]))
	}})
	const call = `{"jsonrpc":"2.0","id":"%d","method":"tools/call","params":{"name":"x","_meta":{"progressToken":1}}}`
	var cursor string
	for _, kind := range []struct {
		name string
		send func(i int) *http.Request
	}{
		{"a ping", func(int) *http.Request { return request(http.MethodPost, "/mcp", ping) }},
		{"a notification", func(int) *http.Request { return request(http.MethodPost, "/mcp", notification) }},
		{"a stream", func(i int) *http.Request { return request(http.MethodPost, "/mcp", fmt.Sprintf(call, i)) }},
		{"a poll with nothing left", func(int) *http.Request { return get(cursorHeader, cursor) }},
		{"a refused cursor", func(int) *http.Request { return get(cursorHeader, "garbage") }},
		{"a refused GET", func(int) *http.Request { return get("Accept", "text/html") }},
		{"a DELETE", func(int) *http.Request { return request(http.MethodDelete, "/mcp", "") }},
	} {
		seen := map[string]bool{}
		for i := range processes { // one of them has the session
			a := e.send(c, kind.send(i))
			if s, ok := parseStream(a.body); ok && s.cursor != "" {
				cursor = s.cursor
			}
			seen[e.wantHead(kind.name, a, processes)] = true
		}
		if len(seen) != len(processes) {
			e.Errorf("%s: both answers are from the same process", kind.name)
		}
	}
}

// get is a GET with one header field.
func get(name, value string) *http.Request {
	r := request(http.MethodGet, "/mcp", "")
	r.Header.Set(name, value)
	return r
}

// wantHead checks that an answer has the fields of one process, and returns its name.
func (e *exam) wantHead(what string, a answer, processes []string) (process string) {
	e.Helper()
	process = strings.Join(a.header["X-Request-Id"], ", ")
	if !slices.Contains(processes, process) {
		e.Errorf("%s: X-Request-Id is %q, and not the name of one process: %+v", what, process, a)
		return process
	}
	for name, want := range headOf(process) {
		if got := a.header[name]; !slices.Equal(got, want) {
			e.Errorf("%s: the field %s of %s is %q, not %q", what, name, process, got, want)
		}
	}
	return process
}
