package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// The servers of these tests are two processes of a cluster, which get the requests in turn, without stickiness: about every other request is
// forwarded.

// sprayed are the clients, by name.
func sprayed(t *testing.T) map[string]program {
	t.Helper()
	clients := map[string]program{
		"package client": {command: driven(t), probes: true, cursor: true, eras: rejoin.EraLegacy},
		"go-sdk":         {command: []string{build(t, "gosdk", "v1.8.0.mod")}, probes: true, cursor: true},
		"mcp-go":         {command: []string{build(t, "mcpgo", "go.mod"), "-listen"}, fragile: true},
	}
	for name, client := range clients {
		client.version, client.listens, client.app, client.processes = "2025-11-25", true, newApp, 2
		clients[name] = client
	}
	return clients
}

func TestGoClientsOfTwoProcesses(t *testing.T) {
	for name, client := range sprayed(t) {
		t.Run(name, func(t *testing.T) {
			rounds := 3 // package client waits up to a second, and mcp-go always does
			if name == "go-sdk" {
				rounds = 10
			}
			t.Run("connects", func(t *testing.T) { caseConnects(t, client) })
			t.Run("waits", func(t *testing.T) { caseWaits(t, client) })
			t.Run("polls", func(t *testing.T) { casePolls(t, client) })
			t.Run("idle", func(t *testing.T) { caseIdle(t, client, rounds) })
			t.Run("fails", func(t *testing.T) { caseFails(t, client) })
			if name != "package client" { // it answers at once
				t.Run("asks", func(t *testing.T) { caseAsks(t, client) })
			}
		})
	}
}

// closeAfter is a policy that disconnects the clients of one tool.
func closeAfter(tool string, d time.Duration) func(rejoin.RequestInfo, rejoin.Policy) rejoin.Policy {
	return func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
		if r.Name == tool {
			p.CloseAfter = d
		}
		return p
	}
}

// caseWaits: one call takes its time on one connection, and another is let go by the policy until its client has polled four times.
func caseWaits(t *testing.T, client program) {
	const polls = 4
	read, polled := make(chan struct{}), make(chan struct{})
	p := start(t, client, rejoin.Config{
		Policy: rejoin.Policy{Retry: soon}, PolicyFor: closeAfter("polled", 50*time.Millisecond),
	}, tools{
		"quick": quick,
		"slow": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			if err := h.Progress(1, 2, ""); err != nil {
				return "", err
			}
			<-read
			return "done", h.Progress(2, 2, "")
		},
		"polled": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			<-polled
			return "done", h.Progress(1, 1, "")
		},
	})
	for range 2 { // at each process
		p.order(t, "call slow")
		p.await(t, 1, "progress", "slow")
	}
	p.await(t, 2, "progress", "slow")
	close(read)
	p.await(t, 2, "result", "slow")
	p.requireSeen(t, "progress", "slow", "1", "1", "2", "2")

	p.order(t, "call polled")
	call := p.wire.wait(t, 1, "stream that was ended", func(e *exchange) bool {
		return e.ended && e.calls("tools/call") && strings.Contains(e.request, `"polled"`)
	})[0]
	p.wire.wait(t, polls, "poll", p.polls(call))
	close(polled)
	p.requireSeen(t, "result", "polled", "done")
	p.requireSeen(t, "progress", "polled", "1")
	p.requireQuick(t)
	requireCleanStreams(t, p.wire)
	p.leave(t)
	require.Positive(t, p.stats().Forwarded)
	require.Equal(t, p.stats().Forwarded, p.stats().Received)
}

// The owner of the session dies, with a call that its client polls for and an open standalone stream. The call ends with an error, the other
// process adopts the session, and the standalone stream goes on there. That takes a lease, and what the clients and the streams wait for.
func TestGoClientsWhoseOwnerDies(t *testing.T) {
	t.Parallel()
	for name, client := range sprayed(t) {
		for _, turns := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, %d", name, turns), func(t *testing.T) {
				t.Parallel()
				t.Run("during a call", func(t *testing.T) { caseOwnerDies(t, client, turns, true) })
				t.Run("while it listens", func(t *testing.T) { caseOwnerDies(t, client, turns, false) })
			})
		}
	}
}

// inTime is how long a call may take to end after its owner was killed: two leases, and the longest that these clients wait before they come back.
const inTime = 10 * time.Second

func caseOwnerDies(t *testing.T, client program, turns int, calls bool) {
	t.Helper()
	p := start(t, client, rejoin.Config{
		Cluster: &rejoin.Cluster{Lease: time.Second},
		Policy:  rejoin.Policy{Retry: 100 * time.Millisecond}, PolicyFor: closeAfter("parked", 200*time.Millisecond),
	}, tools{
		"quick": quick,
		"parked": func(ctx context.Context, _ hand, _ json.RawMessage) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		},
		"attached": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
			if err := h.Progress(1, 2, ""); err != nil {
				return "", err
			}
			<-ctx.Done()
			return "", context.Cause(ctx)
		},
		"news": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			return "done", errors.Join(h.Progress(1, 1, ""),
				h.Session().Notify(context.Background(), "notifications/message", json.RawMessage(`{"level":"info","data":"news"}`)))
		},
		"return": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			return "done", h.CloseStandaloneStream(soon)
		},
	})
	for range turns { // what follows comes to the other processes
		res, err := http.Get(p.url)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
	p.order(t, "call return")
	p.requireSeen(t, "result", "return", "done")
	p.wire.wait(t, 2, "standalone stream", p.wire.standalone())
	p.order(t, "call news")
	p.requireSeen(t, "result", "news", "done")
	p.requireSeen(t, "log", "", "news")
	if calls {
		p.order(t, "call parked")
		call := p.wire.wait(t, 1, "stream that was ended", func(e *exchange) bool {
			return e.ended && e.calls("tools/call") && strings.Contains(e.request, `"parked"`)
		})[0]
		p.wire.wait(t, 3, "poll", p.polls(call))
		p.order(t, "call attached")
		p.await(t, 1, "progress", "attached")
	}

	dead := p.processes.owner(t)
	killed := time.Now()
	dead.kill(t)
	if calls {
		for _, name := range []string{"parked", "attached"} {
			p.await(t, 1, "error", name)
			took := time.Since(killed)
			t.Logf("call %s ended after %v: %s", name, took, p.texts("error", name))
			require.Less(t, took, inTime)
		}
		lost := p.wire.all(func(e *exchange) bool { return strings.Contains(string(e.body), `"reason":"owner_lost"`) })
		if !client.rereads && (!client.fragile || len(lost) > 2) {
			require.Len(t, lost, 2, "each is told once")
		}
	}
	p.wire.wait(t, 1, "standalone stream of the adopter", func(e *exchange) bool {
		return e.method == http.MethodGet && e.status == http.StatusOK && !e.ended && e.sent.After(killed) && p.processes.stats().Adopted == 1
	})
	t.Logf("it listens again after %v", time.Since(killed))
	p.order(t, "call news")
	p.requireSeen(t, "log", "", "news", "news")
	p.requireSeen(t, "result", "news", "done", "done")
	p.requireQuick(t)
	requireCleanStreams(t, p.wire)
	p.leave(t)
	require.Len(t, p.wire.all(func(e *exchange) bool { return e.rpcMethod() == "initialize" }), 1, "the session goes on")
	for _, e := range p.wire.all(func(e *exchange) bool { return e.status != 0 && !e.ended && e.sent.Before(killed) }) {
		require.Equal(t, dead.server.URL, e.answer.Get(servedBy), "what another process serves is not broken off")
	}
	for _, e := range p.wire.all(func(e *exchange) bool { return e.sent.After(killed) }) {
		require.Less(t, e.status, http.StatusBadRequest, "%s %s: %s", e.method, e.request, e.body)
	}
}
