//go:build redis

package redisstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
)

// visitor is a client with a session, whose requests all go to one process, until the test names another.
type visitor struct {
	*client.Session

	to atomic.Pointer[replica]
	// bad is the first answer that no client should see: 404, or an error of a server that is not 503.
	bad atomic.Pointer[string]
}

// visit opens a session in a process.
func visit(t *testing.T, r *replica) *visitor {
	t.Helper()
	v := &visitor{}
	v.to.Store(r)
	s, err := client.Connect(t.Context(), r.url, client.Config{
		HTTP: &http.Client{Transport: v}, Era: client.EraLegacy, Backoff: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, Attempts: 1000,
	})
	require.NoError(t, err)
	v.Session = s
	t.Cleanup(func() {
		s.Leave()
		if bad := v.bad.Load(); bad != nil {
			t.Error(*bad)
		}
	})
	return v
}

// RoundTrip implements http.RoundTripper.
func (v *visitor) RoundTrip(q *http.Request) (*http.Response, error) {
	to, err := url.Parse(v.to.Load().url)
	if err != nil {
		return nil, err
	}
	q = q.Clone(q.Context())
	q.URL.Host, q.Host = to.Host, to.Host
	res, err := http.DefaultTransport.RoundTrip(q)
	if err == nil && (res.StatusCode == http.StatusNotFound || res.StatusCode >= 500 && res.StatusCode != http.StatusServiceUnavailable) {
		bad := fmt.Sprint(q.Method, ": ", res.Status)
		v.bad.CompareAndSwap(nil, &bad)
	}
	return res, err
}

// use sends all later requests to another process.
func (v *visitor) use(r *replica) { v.to.Store(r) }

// asks calls a tool that answers at once.
func (v *visitor) asks(t *testing.T, tool string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got toolText
	require.NoError(t, v.Do(ctx, "tools/call", map[string]any{"name": tool}, &got))
	return got.String()
}

// begins calls the tool work.
func (v *visitor) begins(t *testing.T) *client.Call {
	t.Helper()
	call, err := v.Start(t.Context(), "tools/call", map[string]any{"name": "work", "_meta": map[string]any{"progressToken": "p"}})
	require.NoError(t, err)
	return call
}

// ends waits for the result of a call.
func ends(t *testing.T, call *client.Call) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got toolText
	err := call.Wait(ctx, &got)
	return got.String(), err
}

type toolText struct{ Content []struct{ Text string } }

func (r toolText) String() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// steps reads the progress of a call until that many have come, and requires that they are those from first on.
func steps(t *testing.T, call *client.Call, first, last int) {
	t.Helper()
	came := make(chan error, 1)
	go func() {
		want := first
		for m := range call.Messages() {
			var params struct{ Progress int }
			if err := json.Unmarshal(m.Params, &params); err != nil || params.Progress != want {
				came <- fmt.Errorf("progress %s came in place of %d", m.Params, want)
				return
			}
			if want++; want > last {
				break
			}
		}
		if want <= last {
			came <- fmt.Errorf("progress %d has not come", want)
		}
		close(came)
	}()
	require.NoError(t, soon(t, came))
}

// letGo reports progress and disconnects the client, once it is connected.
func (c *toolCall) letGo(t *testing.T, step int) {
	t.Helper()
	require.NoError(t, c.WaitConnected(c.ctx))
	require.NoError(t, c.Progress(float64(step), 10, ""))
	require.NoError(t, c.CloseStream(0))
}

// lost requires that a call ends with owner_lost, in the promised time since began.
func lost(t *testing.T, call *client.Call, began time.Time) {
	t.Helper()
	_, err := ends(t, call)
	require.Less(t, time.Since(began), inTime)
	e, ok := errors.AsType[*client.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, rejoin.ReasonOwnerLost, e.Reason())
}

// A call is polled through another process than the owner of its session.
func TestASessionOnAnyProcess(t *testing.T) {
	all := startReplicas(t, redistest.New(t, redistest.Options{}), "sessions", 2)
	v := visit(t, all[0])
	require.Equal(t, "remembered", v.asks(t, "remember"))
	call := v.begins(t)
	tool := all[0].next(t)
	v.use(all[1])
	tool.letGo(t, 1)
	steps(t, call, 1, 1)
	tool.letGo(t, 2)
	steps(t, call, 2, 2)
	tool.returns(t, "done")
	got, err := ends(t, call)
	require.NoError(t, err)
	require.Equal(t, "done", got)
	require.Equal(t, "the state", v.asks(t, "recall"))
	require.Zero(t, adoptedBy(all...))
	require.Positive(t, all[1].Stats().Forwarded)
	require.Equal(t, all[1].Stats().Forwarded, all[0].Stats().Received)
}

// A call whose owner is killed ends with owner_lost in the promised time, whether its client is connected to the owner or to another process. The
// session lives on, with what was saved, and with a result that was not fetched.
func TestASessionOfADeadOwner(t *testing.T) {
	for name, through := range map[string]int{"connected to the owner": 0, "connected through another process": 1} {
		t.Run(name, func(t *testing.T) {
			engine := redistest.New(t, redistest.Options{})
			all := startReplicas(t, engine, "sessions", 3)
			a, b, c := all[0], all[1], all[2]
			v := visit(t, a)
			require.Equal(t, "remembered", v.asks(t, "remember"))
			token, finished := v.leaves(t, a, engine)
			v.use(all[through])
			call := v.begins(t)
			tool := a.next(t)
			require.NoError(t, tool.Progress(1, 10, ""))
			steps(t, call, 1, 1)
			require.NoError(t, tool.Progress(2, 10, ""))
			finished()
			a.kill(t)
			began := time.Now()
			v.use(b)
			lost(t, call, began)
			v.use(c)
			require.Equal(t, "the state", v.asks(t, "recall"))
			require.EqualValues(t, 1, adoptedBy(b, c))
			require.Equal(t, "earlier", v.resumes(t, token))

			again := v.begins(t)
			owner := b
			if c.Stats().Adopted > 0 {
				owner = c
			}
			owner.next(t).returns(t, "done")
			got, err := ends(t, again)
			require.NoError(t, err)
			require.Equal(t, "done", got)
		})
	}
}

// leaves begins a call and leaves it. finished ends it, and returns when its result is in the engine.
func (v *visitor) leaves(t *testing.T, owner *replica, engine *redistest.Server) (token string, finished func()) {
	t.Helper()
	call := v.begins(t)
	tool := owner.next(t)
	tool.letGo(t, 1)
	steps(t, call, 1, 1)
	token = call.Leave()
	require.NotEmpty(t, token)
	return token, func() {
		t.Helper()
		tool.returns(t, "earlier")
		recorded(t, engine, `"earlier"`)
	}
}

// recorded waits until the engine has an event with a text.
func recorded(t *testing.T, engine *redistest.Server, text string) {
	t.Helper()
	until(t, func() error {
		for _, key := range keysOf(t, engine, "rejoin:*:s:*") {
			fields, err := engine.Do(t.Context(), "HGETALL", key)
			require.NoError(t, err)
			if strings.Contains(fields, text) {
				return nil
			}
		}
		return fmt.Errorf("the engine does not have %s", text)
	})
}

// resumes gets the result of a call that was left.
func (v *visitor) resumes(t *testing.T, token string) string {
	t.Helper()
	cfg := client.Config{HTTP: &http.Client{Transport: v}, Backoff: 50 * time.Millisecond}
	call, err := client.Resume(t.Context(), v.to.Load().url, token, cfg)
	require.NoError(t, err)
	got, err := ends(t, call)
	require.NoError(t, err)
	return got
}

// A planned end waits for the call that runs; its result arrives through another process. Then that owns the session.
func TestASessionOfAnOwnerThatDrains(t *testing.T) {
	all := startReplicas(t, redistest.New(t, redistest.Options{}), "sessions", 2)
	v := visit(t, all[0])
	require.Equal(t, "remembered", v.asks(t, "remember"))
	call := v.begins(t)
	tool := all[0].next(t)
	tool.letGo(t, 1)
	steps(t, call, 1, 1)
	over := all[0].drain(t)
	v.use(all[1])
	require.NoError(t, tool.Progress(2, 10, ""))
	steps(t, call, 2, 2)
	require.Equal(t, "the state", v.asks(t, "recall"))
	require.Zero(t, adoptedBy(all[1]), "the owner has a call that runs")
	tool.returns(t, "done")
	got, err := ends(t, call)
	require.NoError(t, err)
	require.Equal(t, "done", got)
	require.NoError(t, soon(t, over))
	require.Equal(t, "the state", v.asks(t, "recall"))
	require.EqualValues(t, 1, adoptedBy(all[1]))
}

// Clusters with other names on one engine do not see each other: neither sessions and tasks nor processes.
func TestTwoClustersOfOneEngine(t *testing.T) {
	engine := redistest.New(t, redistest.Options{})
	one, two := startReplica(t, engine, "one"), startReplica(t, engine, "two")
	v := visit(t, one)
	task, _ := one.newTask(t)
	status := func(r *replica, body, session string) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader(body))
		require.NoError(t, err)
		q.Header = http.Header{
			"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2025-11-25"},
		}
		if session != "" {
			q.Header.Set("Mcp-Session-Id", session)
		}
		res, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	until(t, func() error { // the engine is so young that it may have lost sessions
		if got := status(two, ping, v.ID()); got != http.StatusNotFound {
			require.Equal(t, http.StatusServiceUnavailable, got)
			return errors.New("the session may exist")
		}
		return nil
	})
	two.becomes(t, task, "error -32602 ")
	require.Equal(t, http.StatusOK, status(one, ping, v.ID()))
	require.Equal(t, "working", one.state(t, task))

	// A process that drains hands new sessions to others, but there is none in its cluster.
	one.drain(t)
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"test","version":"1"}}}`
	require.Equal(t, http.StatusServiceUnavailable, status(one, initialize, ""))
	require.Zero(t, two.Stats().Received+two.Stats().Opened+two.Stats().Adopted)
	require.Equal(t, http.StatusOK, status(two, initialize, ""))
}

// An engine that was killed and comes back empty ends no session and no call whose owner lives; later another process can adopt the session.
func TestSessionsOfAnEngineThatComesBackEmpty(t *testing.T) {
	engine := redistest.New(t, redistest.Options{})
	all := startReplicas(t, engine, "sessions", 2)
	v := visit(t, all[0])
	require.Equal(t, "remembered", v.asks(t, "remember"))
	token, finished := v.leaves(t, all[0], engine)
	call := v.begins(t)
	tool := all[0].next(t)
	tool.letGo(t, 1)
	steps(t, call, 1, 1)
	finished()
	require.NoError(t, engine.Kill())
	require.NoError(t, tool.Progress(2, 10, "")) // while there is no engine
	require.NoError(t, engine.Restart(t.Context()))
	require.NoError(t, tool.Progress(3, 10, ""))
	v.use(all[1])
	steps(t, call, 2, 3)
	tool.returns(t, "done")
	got, err := ends(t, call)
	require.NoError(t, err)
	require.Equal(t, "done", got)
	require.Zero(t, adoptedBy(all...))

	recorded(t, engine, `"earlier"`) // the owner has restored it
	until(t, func() error {          // the other process may not have noticed yet that the engine answers again
		err := v.Do(t.Context(), "tools/call", map[string]any{"name": "recall"}, nil)
		if refused, ok := errors.AsType[*client.StatusError](err); ok && refused.Status == http.StatusServiceUnavailable {
			return err
		}
		require.NoError(t, err)
		return nil
	})
	last := v.begins(t)
	tool = all[0].next(t)
	require.NoError(t, tool.Progress(1, 10, ""))
	steps(t, last, 1, 1)
	all[0].kill(t)
	lost(t, last, time.Now())
	require.Equal(t, "the state", v.asks(t, "recall"))
	require.Equal(t, "earlier", v.resumes(t, token))
}
