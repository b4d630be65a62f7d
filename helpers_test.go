package rejoin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

const (
	polling = "2025-11-25" // clients of this version poll
	legacy  = "2025-06-18" // clients of this version do not
	batches = "2025-03-26" // and these may send batches besides
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// goroutines are the stacks of what runs in this test's bubble: unlike runtime.NumGoroutine it counts neither the finalizers nor other tests.
// It lets all of them come to rest first.
func goroutines() []string {
	synctest.Wait()
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	_, rest, _ := strings.Cut(all[0], "synctest bubble ") // the first is the one that asks
	number, _, _ := strings.Cut(rest, "]")
	return slices.DeleteFunc(all, func(stack string) bool {
		head, _, _ := strings.Cut(stack, "\n")
		return number == "" || !strings.Contains(head, "synctest bubble "+number+"]")
	})
}

// tool is an app whose requests, initialize and ping aside, are all answered by f.
func tool(f func(ctx context.Context, h *rejoin.Handle) (any, error)) rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "test", Version: "1"}, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		return f(ctx, rejoin.HandleFromContext(ctx))
	})
}

// puppet is a tool that does what the test does with its handle, and returns when the test says so or its context ends.
type puppet struct {
	*rejoin.Handle
	ctx    context.Context
	answer chan any
}

// returns makes the tool return. An error is returned as one.
func (p *puppet) returns(result any) {
	p.answer <- result
	synctest.Wait()
}

// cause is why the tool's context has ended; nil: it has not.
func (p *puppet) cause() error {
	synctest.Wait()
	return context.Cause(p.ctx)
}

// puppets is an app of such tools. next is the tool that was called last.
func puppets() (app rejoin.App, next func() *puppet) {
	called := make(chan *puppet, 1000)
	app = tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
		p := &puppet{h, ctx, make(chan any)}
		called <- p
		select {
		case result := <-p.answer:
			if err, ok := result.(error); ok {
				return nil, err
			}
			return result, nil
		case <-ctx.Done():
			elapse(time.Nanosecond) // the server is to answer first, if it answers
			return "too late", nil
		}
	})
	return app, func() *puppet { return <-called }
}

// fake is an app made of functions. Where one is nil, all goes well: requests are answered with {}.
type fake struct {
	open         func(*http.Request, *rejoin.Session) (rejoin.AppSession, error)
	request      func(*rejoin.Call)
	notification func(*rejoin.Notification)
	ended        func(error)
}

func (a *fake) Open(r *http.Request, s *rejoin.Session, _ []byte) (rejoin.AppSession, error) {
	if a.open != nil {
		return a.open(r, s)
	}
	return a, nil
}

func (a *fake) Modern() http.Handler { return nil }

func (a *fake) Request(c *rejoin.Call) {
	switch {
	case a.request != nil:
		a.request(c)
	default:
		accept(c)
	}
}

// accept answers any request, initialize with the client's own version.
func accept(c *rejoin.Call) {
	var params struct{ ProtocolVersion string }
	_ = json.Unmarshal(c.Params(), &params)
	if c.Method() == "initialize" {
		_ = c.Reply(json.RawMessage(`{"protocolVersion":"` + params.ProtocolVersion + `","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}`))
		return
	}
	_ = c.Reply(nil)
}

func (a *fake) Notification(n *rejoin.Notification) {
	if a.notification != nil {
		a.notification(n)
	}
}

func (a *fake) Ended(cause error) {
	if a.ended != nil {
		a.ended(cause)
	}
}

// request is a request for Client.Do. header are names and values in turn; a name with a value "" is left out of what Do fills in.
func request(t *testing.T, method, body string, header ...string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "", r)
	require.NoError(t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	for i := 0; i < len(header); i += 2 {
		name := http.CanonicalHeaderKey(header[i])
		req.Header.Del(name)
		if header[i+1] == "" {
			req.Header[name] = nil
			continue
		}
		req.Header.Set(name, header[i+1])
	}
	return req
}

// post sends a body and returns the whole answer, and its head.
func post(t *testing.T, c *rejointest.Client, body string, header ...string) (string, *http.Response) {
	t.Helper()
	return whole(t, c.Do(request(t, http.MethodPost, body, header...)))
}

// whole reads an answer to its end.
func whole(t *testing.T, res *http.Response) (string, *http.Response) {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	_ = res.Body.Close()
	return string(body), res
}

// refusal is a refusal's status, code, id and data.reason.
func refusal(t *testing.T, body string, res *http.Response) string {
	t.Helper()
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.Empty(t, res.Header.Get("Mcp-Session-Id"), "no session id on an error")
	return fmt.Sprintf("%d %s", res.StatusCode, shape(body))
}

// sessions are the snapshots of all live sessions.
func sessions(s *rejoin.Server) (all []rejoin.SessionInfo) {
	synctest.Wait()
	for info := range s.Sessions() {
		all = append(all, info)
	}
	return all
}

// session is the one live session of a client.
func session(t *testing.T, c *rejointest.Client) rejoin.SessionInfo {
	t.Helper()
	all := sessions(c.Server())
	require.Len(t, all, 1)
	return all[0]
}

// progress are the progress values among messages, in order.
func progress(t *testing.T, messages []json.RawMessage) (values []int) {
	t.Helper()
	for _, raw := range messages {
		var m struct {
			Method string
			Params struct{ Progress int }
		}
		require.NoError(t, json.Unmarshal(raw, &m))
		if m.Method == "notifications/progress" {
			values = append(values, m.Params.Progress)
		}
	}
	return values
}

// upTo is 0, 1, … n-1.
func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// inSession is a POST of a session, to be served without a network.
func inSession(t *testing.T, session, body string, header ...string) *http.Request {
	t.Helper()
	r := request(t, http.MethodPost, body, header...)
	r.Header.Set("Mcp-Session-Id", session)
	return r
}

// quietLogger is for tests that provoke what is logged.
func quietLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// elapse lets virtual time pass, for a test or a tool in a bubble.
func elapse(d time.Duration) { <-time.After(d) }
