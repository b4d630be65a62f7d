package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// The cases of this file hold for every client that can poll. Each case starts a client.

// quick is a tool that every case calls last: the session still works.
func quick(context.Context, hand, json.RawMessage) (string, error) { return "done", nil }

func (p *peer) requireQuick(t *testing.T) {
	t.Helper()
	p.order(t, "call quick")
	p.requireSeen(t, "result", "quick", "done")
}

// casePolls: while the client is disconnected, messages are sent. It gets each of them once when it polls.
func casePolls(t *testing.T, client program) {
	const rounds = 5
	p := start(t, client, rejoin.Config{}, tools{
		"quick": quick,
		"long": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
			for i := range rounds {
				if err := errors.Join(
					h.Progress(float64(2*i+1), 11, ""),
					h.Notify("notifications/message", map[string]any{"level": "info", "data": fmt.Sprint("reading ", i)}),
					h.CloseStream(soon),
					h.Progress(float64(2*i+2), 11, ""),
					h.Notify("notifications/message", map[string]any{"level": "info", "data": fmt.Sprint("away ", i)}),
					h.WaitConnected(ctx),
				); err != nil {
					return "", err
				}
			}
			return "done", h.Progress(11, 11, "")
		},
	})
	p.order(t, "call long")
	p.requireSeen(t, "result", "long", "done")
	p.requireSeen(t, "progress", "long", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11")
	p.requireSeen(t, "log", "", "reading 0", "away 0", "reading 1", "away 1", "reading 2", "away 2", "reading 3", "away 3",
		"reading 4", "away 4")
	p.requireQuick(t)
	requireCleanStreams(t, p.wire)

	post := p.wire.all(func(e *exchange) bool { return e.calls("tools/call") })[0]
	polls := p.wire.all(p.polls(post))
	require.Len(t, polls, rounds)
	told, answers := 0, 0
	for _, e := range append([]exchange{post}, polls...) {
		told += strings.Count(string(e.body), `"notifications/`)
		answers += strings.Count(string(e.body), `"result"`)
	}
	require.Equal(t, 4*rounds+1, told, "each message is on the wire once")
	require.Equal(t, 1, answers)
	require.EqualValues(t, rounds, p.stats().Resumed)
	p.leave(t)
}

// polls matches the GETs that resume the stream of a POST.
func (p *peer) polls(post exchange) func(*exchange) bool {
	stream := streamName(events(post.body)[0].id)
	return func(e *exchange) bool { return e.method == http.MethodGet && streamName(e.cursor()) == stream }
}

// caseIdle: the standalone stream is closed many times without a message, and then still works.
func caseIdle(t *testing.T, client program, rounds int) {
	const retry = 50 * time.Millisecond
	handles, release := make(chan hand, 1), make(chan struct{})
	p := start(t, client, rejoin.Config{}, tools{
		"quick": quick,
		"hold": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
			handles <- h
			select {
			case <-release:
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		},
	})
	p.order(t, "call hold")
	h := receive(t, handles, "a running call")
	for i := range rounds {
		p.wire.wait(t, i+1, "standalone stream", p.wire.standalone())
		require.NoError(t, h.CloseStandaloneStream(retry))
	}
	p.wire.wait(t, rounds+1, "standalone stream", p.wire.standalone())
	notify := func(text string) {
		t.Helper()
		params := json.RawMessage(fmt.Sprintf(`{"level":"info","data":%q}`, text))
		require.NoError(t, h.Session().Notify(t.Context(), "notifications/message", params))
	}
	notify("while it reads")
	p.requireSeen(t, "log", "", "while it reads")
	require.NoError(t, h.CloseStandaloneStream(retry))
	notify("while it is away")
	p.requireSeen(t, "log", "", "while it reads", "while it is away")
	close(release)
	p.requireSeen(t, "result", "hold", "done")
	p.requireQuick(t)
	requireCleanStreams(t, p.wire)

	gets := p.wire.all(p.wire.standalone())
	require.Len(t, gets, rounds+2)
	for i := range gets[1:] {
		require.Equal(t, client.cursor, gets[i+1].cursor() != "")
		if client.cursor { // node's timers may fire a millisecond early
			require.GreaterOrEqual(t, gets[i+1].sent.Sub(gets[i].endedAt), retry-2*time.Millisecond, "the client waits as long as it was told")
		}
	}
	require.EqualValues(t, rounds+1, p.stats().Closed)
	p.leave(t)
	require.Len(t, p.texts("log", ""), 2, "each message arrives once")
}

// caseFails: a call that fails while its client is disconnected fails at the client too, and no other call fails.
func caseFails(t *testing.T, client program) {
	p := start(t, client, rejoin.Config{Policy: rejoin.Policy{Retry: soon}}, tools{
		"quick": quick,
		"fail": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			if err := h.CloseStream(soon); err != nil {
				return "", err
			}
			return "", rejoin.Errorf(-32050, "out of luck")
		},
	})
	p.order(t, "call fail")
	p.await(t, 1, "error", "fail")
	require.Contains(t, p.texts("error", "fail")[0], "out of luck")
	call := p.wire.all(func(e *exchange) bool { return e.calls("tools/call") })[0]
	want := []int{http.StatusOK}
	if client.rereads {
		want = append(want, http.StatusNoContent)
		p.wire.wait(t, 2, "poll", func(e *exchange) bool { return e.status != 0 && p.polls(call)(e) })
	}
	p.requireQuick(t)
	requireCleanStreams(t, p.wire)
	p.leave(t)
	require.Len(t, p.texts("error", "fail"), 1, "the error arrives once")
	var got []int
	for _, e := range p.wire.all(p.polls(call)) {
		got = append(got, e.status)
	}
	require.Equal(t, want, got, "nobody polls for what has ended")
}

// caseAsks: the tool asks while the client is disconnected, and the answer comes while it is disconnected again.
func caseAsks(t *testing.T, client program) {
	handles := make(chan hand, 1)
	p := start(t, client, rejoin.Config{}, tools{
		"quick": quick,
		"ask": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
			handles <- h
			var answer struct {
				Action  string            `json:"action"`
				Content map[string]string `json:"content"`
			}
			err := errors.Join(h.CloseStream(soon), h.Ask(ctx, "elicitation/create", map[string]any{
				"message": "Who are you?",
				"requestedSchema": map[string]any{
					"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
				},
			}, &answer))
			return answer.Action + " " + answer.Content["name"], err
		},
	})
	p.order(t, "call ask")
	h := receive(t, handles, "a running call")
	p.requireSeen(t, "asked", "", "Who are you?")
	require.NoError(t, h.CloseStream(soon))
	p.order(t, "answer")
	p.requireSeen(t, "result", "ask", "accept Ann")
	p.requireQuick(t)
	requireCleanStreams(t, p.wire)
	call := p.wire.all(func(e *exchange) bool { return e.calls("tools/call") })[0]
	asking := p.wire.all(func(e *exchange) bool { return strings.Contains(string(e.body), `"elicitation/create"`) })
	require.Len(t, asking, 1, "the question is on the wire once")
	require.True(t, p.polls(call)(&asking[0]), "it is asked on the call's own stream")
	p.leave(t)
}

// caseConnects: the client sends only these requests to connect and to call a tool. So no time is lost, and no client repeats a request. A
// client of both eras begins with server/discover, is refused, and then does what the others do.
func caseConnects(t *testing.T, client program) {
	p := start(t, client, rejoin.Config{}, tools{
		"resumable": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			return strconv.FormatBool(h.Resumable()), nil
		},
	})
	p.order(t, "call resumable")
	p.requireSeen(t, "result", "resumable", "true")
	p.leave(t)
	posts := p.wire.all(func(e *exchange) bool { return e.method == http.MethodPost })
	var got []string
	for _, e := range posts {
		got = append(got, fmt.Sprint(e.rpcMethod(), " ", e.status))
	}
	want := []string{"initialize 200", "notifications/initialized 202", "tools/call 200"}
	refused := 0
	if client.probes {
		want = append([]string{"server/discover 400"}, want...)
		refused = 1
		require.Empty(t, posts[0].answer.Get("Mcp-Session-Id"), "a refusal opens no session")
	}
	require.Equal(t, want, got)
	require.EqualValues(t, refused, p.stats().Refused)
	require.EqualValues(t, 1, p.stats().Opened)
}
