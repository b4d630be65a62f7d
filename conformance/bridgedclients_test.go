package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// bridges are the servers of both SDKs.
var bridges = map[string]func(tools) rejoin.App{"go-sdk": bridgedGoSDK, "mcp-go": bridgedMCPGo}

// eachBridge runs each case with the client and a server of each SDK behind its bridge.
func eachBridge(t *testing.T, with program, cases map[string]func(*testing.T, program)) {
	for server, app := range bridges {
		client := with // each case gets its own copy, because cases run later
		client.app = app
		for name, run := range cases {
			t.Run(server+" "+name, func(t *testing.T) {
				t.Parallel()
				run(t, client)
			})
		}
	}
}

// Clients poll a bridged server as they poll rejoin's own app, whether it serves their era only or both. What its SDK sends outside of calls
// comes on the standalone stream.
func TestEarlierGoSDKPollsBridges(t *testing.T) {
	t.Parallel()
	for _, client := range []program{
		{command: []string{build(t, "gosdk", "v1.6.1.mod")}, eras: rejoin.EraBoth},
		{command: []string{build(t, "gosdk", "go.mod")}, probes: true}, // v1.7.0
		{command: []string{build(t, "gosdk", "v1.8.0.mod"), "-version", "2025-11-25"}, eras: rejoin.EraBoth},
	} {
		client.version, client.listens, client.cursor = "2025-11-25", true, true
		t.Run(filepath.Base(client.command[0]), func(t *testing.T) {
			t.Parallel()
			eachBridge(t, client, polledCases())
		})
	}
}

func polledCases() map[string]func(*testing.T, program) {
	return map[string]func(*testing.T, program){
		"connects": caseConnects, "polls": casePolls, "fails": caseFails, "asks": caseAsks, "grows": caseGrows,
		"idle": func(t *testing.T, client program) { caseIdle(t, client, 5) },
	}
}

func TestMCPGoPollsBridges(t *testing.T) {
	t.Parallel()
	path := build(t, "mcpgo", "go.mod")
	eachBridge(t, program{command: []string{path}, version: "2025-11-25", probes: true},
		map[string]func(*testing.T, program){"falls back": caseConnects, "polls after it fell back": casePolls})
	eachBridge(t, program{command: []string{path, "-legacy"}, version: "2025-11-25", eras: rejoin.EraBoth},
		map[string]func(*testing.T, program){"connects": caseConnects, "polls": casePolls, "fails": caseFails, "asks": caseAsks})
	eachBridge(t, program{command: []string{path, "-listen"}, version: "2025-11-25", listens: true, eras: rejoin.EraBoth},
		map[string]func(*testing.T, program){
			"grows": caseGrows, "idle": func(t *testing.T, client program) { caseIdle(t, client, 2) },
		})
}

// If the modern era is offered, clients of both eras use it.
func TestModernClientsOfBridges(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"go-sdk v1.7.0": {build(t, "gosdk", "go.mod")},
		"go-sdk v1.8.0": {build(t, "gosdk", "v1.8.0.mod")},
		"mcp-go":        {build(t, "mcpgo", "go.mod")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachBridge(t, program{command: command, version: "2026-07-28", eras: rejoin.EraBoth},
				map[string]func(*testing.T, program){"modern": caseModern, "last messages": caseLastMessages})
		})
	}
}

// So do they with an app of NewApp. It announces no changes, so go-sdk v1.8.0 does not subscribe to them.
func TestModernClientsOfNewApp(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"go-sdk v1.7.0": {build(t, "gosdk", "go.mod")},
		"go-sdk v1.8.0": {build(t, "gosdk", "v1.8.0.mod")},
		"mcp-go":        {build(t, "mcpgo", "go.mod")},
	} {
		for era, eras := range map[string]rejoin.Eras{"both eras": rejoin.EraBoth, "only the modern era": rejoin.EraModern} {
			t.Run(name+", "+era, func(t *testing.T) {
				t.Parallel()
				client := program{command: command, version: "2026-07-28", eras: eras, app: newApp}
				t.Run("modern", func(t *testing.T) { caseModernApp(t, client, name != "go-sdk v1.8.0") })
				t.Run("last messages", func(t *testing.T) { caseLastMessages(t, client) })
			})
		}
	}
}

// caseLastMessages: messages that a tool sends right before it returns arrive too.
func caseLastMessages(t *testing.T, client program) {
	const calls = 50
	p := start(t, client, rejoin.Config{}, tools{
		"short": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			return "done", errors.Join(h.Progress(1, 3, ""), h.Progress(2, 3, ""), h.Progress(3, 3, ""))
		},
	})
	for i := range calls {
		p.order(t, "call short")
		p.await(t, i+1, "result", "short")
	}
	p.await(t, 3*calls, "progress", "short")
	require.NoError(t, p.stdin.Close())
	p.requireSeen(t, "ended", "", "")
	require.Len(t, p.texts("progress", "short"), 3*calls)
}

// caseGrows: a notification of the SDK to all its clients comes once, on the standalone stream, also to a client that was disconnected.
func caseGrows(t *testing.T, client program) {
	handles, release := make(chan hand, 1), make(chan struct{})
	p := start(t, client, rejoin.Config{}, tools{
		"hold": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			handles <- h
			<-release
			return "done", nil
		},
	})
	p.order(t, "call hold")
	h := receive(t, handles, "a running call")
	require.NoError(t, h.CloseStandaloneStream(soon))
	p.order(t, "call "+grow)
	p.requireSeen(t, "result", grow, "done")
	p.requireSeen(t, "changed", "", "")
	close(release)
	p.requireSeen(t, "result", "hold", "done")
	p.order(t, "call grown")
	p.requireSeen(t, "result", "grown", "done")
	requireCleanStreams(t, p.wire)
	p.leave(t)
	require.Len(t, p.texts("changed", ""), 1)
}

// caseModern: a call, its progress and its failure, a question in the result of a call, and a change that the client has subscribed to.
func caseModern(t *testing.T, client program) {
	p := startModern(t, client)
	p.order(t, "call "+who)
	p.requireSeen(t, "asked", "", whoAsks)
	p.order(t, "answer")
	p.requireSeen(t, "result", who, "accept Ann")
	p.order(t, "listen")
	p.wire.wait(t, 1, "listening", func(e *exchange) bool { return e.calls("subscriptions/listen") && len(e.body) > 0 })
	p.order(t, "call "+grow)
	p.requireSeen(t, "result", grow, "done")
	p.requireSeen(t, "changed", "", "")
	p.order(t, "call grown")
	p.requireSeen(t, "result", "grown", "done")
	p.leaveModern(t)
	require.Len(t, p.texts("changed", ""), 1)
}

// caseModernApp is caseModern without what only SDKs do. A subscription is accepted, and nothing comes on it.
func caseModernApp(t *testing.T, client program, subscribes bool) {
	p := startModern(t, client)
	if subscribes {
		p.order(t, "listen")
		listening := p.wire.wait(t, 1, "listening", func(e *exchange) bool { return e.calls("subscriptions/listen") && len(e.body) > 0 })
		require.Contains(t, string(listening[0].body), "notifications/subscriptions/acknowledged")
	}
	p.leaveModern(t)
}

// startModern starts a server and a client of the modern era, which calls a tool that reports progress and one that fails.
func startModern(t *testing.T, client program) *peer {
	t.Helper()
	release := make(chan struct{})
	p := start(t, client, rejoin.Config{}, tools{
		"quick": quick,
		"long": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			for i := range 3 {
				if err := h.Progress(float64(i+1), 3, ""); err != nil {
					return "", err
				}
			}
			if err := h.CloseStream(soon); !errors.Is(err, rejoin.ErrNotResumable) || h.Resumable() {
				return "", errors.Join(errors.New("it was closed"), err)
			}
			<-release
			return "done", nil
		},
		"fail": func(context.Context, hand, json.RawMessage) (string, error) {
			return "", rejoin.Errorf(-32050, "out of luck")
		},
	})
	p.order(t, "call long")
	p.requireSeen(t, "progress", "long", "1", "2", "3") // while the call runs
	close(release)
	p.requireSeen(t, "result", "long", "done")
	p.order(t, "call fail")
	p.await(t, 1, "error", "fail")
	require.Contains(t, p.texts("error", "fail")[0], "out of luck")
	return p
}

// leaveModern calls another tool, ends the client, and checks that it has met nothing of the legacy era.
func (p *peer) leaveModern(t *testing.T) {
	t.Helper()
	p.requireQuick(t)
	require.NoError(t, p.stdin.Close())
	p.requireSeen(t, "ended", "", "")
	require.Empty(t, p.texts("trouble", ""))
	require.Len(t, p.texts("progress", "long"), 3)
	require.Zero(t, p.stats().Opened, "there are no sessions")
	for _, e := range p.wire.all(nil) {
		require.Equal(t, http.MethodPost, e.method)
		require.Empty(t, e.answer.Get("Mcp-Session-Id"))
	}
}
