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

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// While the client is disconnected, the tool reports progress. The client gets it when it polls.
func TestGoSDKProgressAcrossFiveCloses(t *testing.T) {
	seen := newProgress()
	s := connect(t, rejoin.Config{}, tools{
		"long": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
			for i := range 5 {
				if err := errors.Join(
					h.Progress(float64(2*i+1), 11, "while the client reads"),
					h.CloseStream(soon),
					h.Progress(float64(2*i+2), 11, "while it is away"),
					h.WaitConnected(ctx),
				); err != nil {
					return "", err
				}
			}
			return "done", h.Progress(11, 11, "")
		},
	}, &mcp.ClientOptions{ProgressNotificationHandler: seen.handler}, nil)
	start := time.Now()
	s.requireCall(t, "long", "done")
	t.Logf("polled five times in %v", time.Since(start))
	seen.require(t, "long", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)

	requireCleanStreams(t, s.wire)
	post := s.wire.all(func(e *exchange) bool { return e.calls("tools/call") })[0]
	stream := streamName(events(post.body)[0].id)
	polls := s.wire.all(func(e *exchange) bool { return streamName(e.cursor()) == stream })
	require.Len(t, polls, 5)
	told, answers := 0, 0
	for _, e := range append([]exchange{post}, polls...) {
		told += strings.Count(string(e.body), `"notifications/progress"`)
		answers += strings.Count(string(e.body), `"result"`)
	}
	require.Equal(t, 11, told, "each message is on the wire once")
	require.Equal(t, 1, answers)
	require.EqualValues(t, 5, s.srv.Stats().Resumed)
}

// The client resets its count of failed connections only if a connection brought a new event id, and ends its session after five failures. So
// a client that is disconnected again and again without events must get a new id each time.
func TestGoSDKIdleStandaloneStream(t *testing.T) {
	const rounds, retry = 20, 50 * time.Millisecond
	type held struct {
		handle  hand
		release chan struct{}
	}
	tests := []struct {
		name  string
		close func(s session, h hand) error
	}{
		{"by the server", func(s session, _ hand) error {
			for info := range s.srv.Sessions() {
				return s.srv.CloseStream(info.Streams[0].Ref, retry)
			}
			return errors.New("there is no session")
		}},
		{"by a tool", func(_ session, h hand) error { return h.CloseStandaloneStream(retry) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			holds := make(chan held)
			messages := make(chan string, 10)
			s := connect(t, rejoin.Config{}, tools{
				"hold": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
					hold := held{h, make(chan struct{})}
					holds <- hold
					select {
					case <-hold.release:
						return "done", nil
					case <-ctx.Done():
						return "", context.Cause(ctx)
					}
				},
				"quick": func(context.Context, hand, json.RawMessage) (string, error) { return "done", nil },
			}, &mcp.ClientOptions{LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
				messages <- fmt.Sprint(r.Params.Data)
			}}, nil)
			ended := make(chan error, 1)
			go func() {
				_, err := s.call(s.ctx, "hold", nil)
				ended <- err
			}()
			hold := receive(t, holds, "a running call")

			s.wire.wait(t, 1, "standalone stream", s.wire.standalone())
			start := time.Now()
			for i := range rounds {
				require.NoError(t, test.close(s, hold.handle))
				s.wire.wait(t, i+2, "standalone stream", s.wire.standalone())
			}
			t.Logf("polled %d times in %v", rounds, time.Since(start))

			notify := func(text string) {
				t.Helper()
				params, err := json.Marshal(map[string]any{"level": "info", "data": text})
				require.NoError(t, err)
				require.NoError(t, hold.handle.Session().Notify(s.ctx, "notifications/message", params))
			}
			s.requireCall(t, "quick", "done")
			notify("while it reads")
			require.Equal(t, "while it reads", receive(t, messages, "a message on the standalone stream"))
			require.NoError(t, test.close(s, hold.handle))
			notify("while it is away")
			require.Equal(t, "while it is away", receive(t, messages, "a message after the next poll"))

			close(hold.release)
			require.NoError(t, receive(t, ended, "the end of the call"))
			gets := s.wire.all(s.wire.standalone())
			requireCleanStreams(t, s.wire)
			require.Len(t, gets, rounds+2)
			require.EqualValues(t, rounds+1, s.srv.Stats().Closed)
			for i := range gets[1:] {
				require.GreaterOrEqual(t, gets[i+1].sent.Sub(gets[i].endedAt), retry, "the client waits as long as it was told")
			}
			require.Empty(t, messages, "each message arrives once")
		})
	}
}

// The tool asks while the client is disconnected, and the answer comes while it is disconnected again.
func TestGoSDKElicitationAcrossCloses(t *testing.T) {
	asked, mayAnswer := make(chan struct{}), make(chan struct{})
	handles := make(chan hand, 1)
	s := connect(t, rejoin.Config{}, tools{
		"ask": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
			handles <- h
			var answer struct {
				Action  string `json:"action"`
				Content struct {
					Name string `json:"name"`
				} `json:"content"`
			}
			err := errors.Join(h.CloseStream(soon), h.Ask(ctx, "elicitation/create", map[string]any{
				"message": "Who are you?",
				"requestedSchema": map[string]any{
					"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
				},
			}, &answer))
			return answer.Action + " " + answer.Content.Name, err
		},
	}, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(asked)
		<-mayAnswer
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann: " + r.Params.Message}}, nil
	}}, nil)
	type outcome struct {
		text string
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		text, err := s.call(s.ctx, "ask", nil)
		ended <- outcome{text, err}
	}()
	h := receive(t, handles, "a running call")
	receive(t, asked, "the question")
	require.NoError(t, h.CloseStream(soon))
	close(mayAnswer)
	require.Equal(t, outcome{"accept Ann: Who are you?", nil}, receive(t, ended, "the end of the call"))

	requireCleanStreams(t, s.wire)
	asking := s.wire.all(func(e *exchange) bool { return strings.Contains(string(e.body), `"elicitation/create"`) })
	require.Len(t, asking, 1, "the question is on the wire once")
	require.Equal(t, http.MethodGet, asking[0].method)
	call := s.wire.all(func(e *exchange) bool { return e.calls("tools/call") })[0]
	require.Equal(t, streamName(events(call.body)[0].id), streamName(asking[0].cursor()), "it is asked on the call's own stream")
	answers := s.wire.all(func(e *exchange) bool { return e.method == http.MethodPost && messageOf(e.request).isResponse() })
	require.Len(t, answers, 1)
	require.Equal(t, http.StatusAccepted, answers[0].status)
}

// Clients of older versions would take a primer for JSON, and a close for the end.
func TestGoSDKOlderVersion(t *testing.T) {
	seen := newProgress()
	closed := make(chan error, 2)
	s := connect(t, rejoin.Config{}, tools{
		"long": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			err := h.Progress(1, 2, "")
			closed <- h.CloseStream(soon)
			closed <- h.CloseStandaloneStream(soon)
			return "done", errors.Join(err, h.Progress(2, 2, ""))
		},
		"pending": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			closed <- h.CloseStream(soon)
			return strconv.FormatBool(h.Resumable()), nil
		},
	}, &mcp.ClientOptions{ProgressNotificationHandler: seen.handler}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	require.Equal(t, "2025-06-18", s.InitializeResult().ProtocolVersion)
	s.wire.wait(t, 1, "standalone stream", func(e *exchange) bool { return e.method == http.MethodGet && e.status == http.StatusOK })

	s.requireCall(t, "long", "done")
	require.ErrorIs(t, receive(t, closed, "CloseStream"), rejoin.ErrNotResumable)
	require.ErrorIs(t, receive(t, closed, "CloseStandaloneStream"), rejoin.ErrNotResumable)
	seen.require(t, "long", 1, 2)
	s.requireCall(t, "pending", "false")
	require.ErrorIs(t, receive(t, closed, "CloseStream before the head"), rejoin.ErrNotResumable)
	for info := range s.srv.Sessions() {
		require.ErrorIs(t, s.srv.CloseStream(info.Streams[0].Ref, soon), rejoin.ErrNotResumable)
	}

	long := s.wire.all(func(e *exchange) bool { return e.calls("tools/call") })[0]
	require.Equal(t, "text/event-stream", long.contentType())
	list := events(long.body)
	require.Len(t, list, 3, "two messages and the response, in one answer: %q", long.body)
	require.True(t, messageOf(list[2].data).isResponse())
	for _, e := range list {
		require.NotEmpty(t, e.id, "the client can come back on its own after a loss")
	}
	for _, e := range s.wire.all(nil) {
		require.Empty(t, e.cursor(), "the client was never sent away")
		require.NotContains(t, string(e.body), "retry:")
		require.False(t, e.method == http.MethodGet && e.ended, "the standalone stream stays open")
		if e.contentType() == "text/event-stream" {
			for _, event := range events(e.body) {
				require.False(t, event.hasData && event.data == "", "an empty event: %q", e.body)
			}
		}
	}
}

// CloseAfter ends connections before a proxy's limit, without help from the tool.
func TestGoSDKCloseAfter(t *testing.T) {
	finish := make(chan struct{})
	cfg := rejoin.Config{Policy: rejoin.Policy{CloseAfter: 2 * soon, Retry: soon, RetryMax: 2 * soon}}
	s := connect(t, cfg, tools{
		"unaware": func(ctx context.Context, _ hand, _ json.RawMessage) (string, error) {
			select {
			case <-finish:
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		},
	}, nil, nil)
	ended := make(chan error, 1)
	go func() {
		text, err := s.call(s.ctx, "unaware", nil)
		if err == nil && text != "done" {
			err = errors.New(text)
		}
		ended <- err
	}()
	calls := s.wire.wait(t, 1, "call that was let go", func(e *exchange) bool { return e.calls("tools/call") && e.ended })
	stream := streamName(events(calls[0].body)[0].id)
	s.wire.wait(t, 10, "poll of the call", func(e *exchange) bool { return streamName(e.cursor()) == stream && e.ended })
	close(finish)
	require.NoError(t, receive(t, ended, "the end of the call"))
	requireCleanStreams(t, s.wire)
}
