package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// A client that prefers the newest version tries the modern era first. It must fall back at once, and be able to poll.
func TestGoSDKFallsBackToInitialize(t *testing.T) {
	s := connect(t, rejoin.Config{}, tools{
		"resumable": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			return strconv.FormatBool(h.Resumable()), nil
		},
	}, nil, nil)
	require.Equal(t, "2025-11-25", s.InitializeResult().ProtocolVersion)
	require.NotEmpty(t, s.ID())

	posts := s.wire.all(func(e *exchange) bool { return e.method == http.MethodPost })
	methods := make([]string, len(posts))
	for i := range posts {
		methods[i] = posts[i].rpcMethod()
	}
	require.Equal(t, []string{"server/discover", "initialize", "notifications/initialized"}, methods)
	discover, initialize := posts[0], posts[1]
	require.Equal(t, http.StatusBadRequest, discover.status)
	require.Empty(t, discover.answer.Get("Mcp-Session-Id"), "a refusal opens no session")
	require.Contains(t, string(discover.body), "2025-11-25", "the refusal names the versions that are spoken")
	require.Equal(t, messageOf(discover.request).ID, messageOf(string(discover.body)).ID, "a refusal carries the request's id")
	require.Equal(t, http.StatusOK, initialize.status)
	require.Equal(t, "application/json", initialize.contentType())

	stats := s.srv.Stats()
	require.EqualValues(t, 1, stats.Opened)
	require.EqualValues(t, 1, stats.Refused)
	s.requireCall(t, "resumable", "true")
	t.Logf("refused after %v, initialize sent %v later", discover.answered.Sub(discover.sent), initialize.sent.Sub(discover.answered))
}

func TestGoSDKPlainJSON(t *testing.T) {
	cfg := rejoin.Config{Policy: rejoin.Policy{StreamAfter: patience}} // long, so that also on a busy machine the answer is JSON
	s := connect(t, cfg, tools{
		"quick": func(context.Context, hand, json.RawMessage) (string, error) { return "done", nil },
	}, nil, nil)
	for range 10 {
		s.requireCall(t, "quick", "done")
	}
	calls := s.wire.all(func(e *exchange) bool { return e.calls("tools/call") })
	require.Len(t, calls, 10)
	for _, call := range calls {
		require.Equal(t, "application/json", call.contentType())
		require.True(t, messageOf(string(call.body)).isResponse())
	}
	require.Zero(t, s.srv.Stats().StoredBytes, "a plain answer is not recorded")
}

func TestGoSDKErrors(t *testing.T) {
	fault := rejoin.Errorf(-32042, "out of %s", "luck")
	fault.Data = json.RawMessage(`{"why":"no reason"}`)
	s := connect(t, rejoin.Config{}, tools{
		"plain": func(context.Context, hand, json.RawMessage) (string, error) { return "", fault },
		"polled": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
			if err := h.CloseStream(soon); err != nil {
				return "", err
			}
			return "", fault
		},
		"internal": func(context.Context, hand, json.RawMessage) (string, error) {
			return "", errors.New("the password is secret")
		},
		"panic": func(context.Context, hand, json.RawMessage) (string, error) {
			panic("the password is secret")
		},
		"quick": func(context.Context, hand, json.RawMessage) (string, error) { return "done", nil },
	}, nil, nil)
	tests := []struct {
		tool string
		want jsonrpc.Error
	}{
		{"plain", jsonrpc.Error{Code: -32042, Message: "out of luck", Data: fault.Data}},
		{"polled", jsonrpc.Error{Code: -32042, Message: "out of luck", Data: fault.Data}},
		{"internal", jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}},
		{"panic", jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}},
	}
	for _, test := range tests {
		t.Run(test.tool, func(t *testing.T) {
			_, err := s.call(s.ctx, test.tool, nil)
			var got *jsonrpc.Error
			require.ErrorAs(t, err, &got)
			require.Equal(t, test.want, *got)
			s.requireCall(t, "quick", "done")
		})
	}
	require.EqualValues(t, 1, s.srv.Stats().Resumed)
	requireCleanStreams(t, s.wire)
	for _, e := range s.wire.all(nil) {
		require.NotContains(t, string(e.body), "secret")
	}
}

// Only notifications/cancelled cancels a call, in every state of its stream. The client also closes the connection, which does not matter.
func TestGoSDKCancels(t *testing.T) {
	tests := []struct {
		name  string
		begin func(h hand) error // brings the stream into its state
	}{
		{"before the head", func(hand) error { return nil }},
		{"while it reads", func(h hand) error { return h.Progress(1, 2, "") }},
		{"while it is away", func(h hand) error { return h.CloseStream(time.Hour) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			seen := newProgress()
			causes := make(chan error, 1)
			begun := make(chan error, 1)
			cfg := rejoin.Config{Policy: rejoin.Policy{StreamAfter: patience}}
			s := connect(t, cfg, tools{
				"long": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
					begun <- test.begin(h)
					select {
					case <-ctx.Done():
						causes <- context.Cause(ctx)
					case <-time.After(patience):
						causes <- errors.New("it was not cancelled")
					}
					return "too late", nil
				},
				"quick": func(context.Context, hand, json.RawMessage) (string, error) { return "done", nil },
			}, &mcp.ClientOptions{ProgressNotificationHandler: seen.handler}, nil)
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := s.call(ctx, "long", nil)
				ended <- err
			}()
			require.NoError(t, receive(t, begun, "a running call"))
			switch test.name {
			case "while it reads":
				seen.require(t, "long", 1)
			case "while it is away":
				s.wire.wait(t, 1, "an answer that ended", func(e *exchange) bool { return e.calls("tools/call") && e.ended })
			}
			cancel()
			require.ErrorIs(t, receive(t, ended, "the end of the call"), context.Canceled)
			require.ErrorIs(t, receive(t, causes, "the end of the tool's context"), rejoin.ErrCancelled)
			s.requireCall(t, "quick", "done")
		})
	}
}

// Many calls of one session run at once, each with a stream that is closed once. Each gets its own messages.
func TestGoSDKConcurrentCalls(t *testing.T) {
	const calls = 32
	seen := newProgress()
	var running sync.WaitGroup
	running.Add(calls)
	s := connect(t, rejoin.Config{}, tools{
		"echo": func(ctx context.Context, h hand, args json.RawMessage) (string, error) {
			running.Done()
			running.Wait() // until all run at once
			var n struct {
				N float64 `json:"n"`
			}
			err := errors.Join(
				json.Unmarshal(args, &n),
				h.Progress(1000*n.N+1, 0, ""),
				h.CloseStream(soon),
				h.Progress(1000*n.N+2, 0, ""),
				h.WaitConnected(ctx),
				h.Progress(1000*n.N+3, 0, ""),
			)
			return fmt.Sprint("call ", n.N), err
		},
	}, &mcp.ClientOptions{ProgressNotificationHandler: seen.handler}, nil)
	texts, errs := make([]string, calls), make([]error, calls)
	var done sync.WaitGroup
	for i := range calls {
		done.Go(func() { texts[i], errs[i] = s.callAs(s.ctx, "echo", fmt.Sprint("token", i), map[string]int{"n": i}) })
	}
	start := time.Now()
	done.Wait()
	t.Logf("%d calls, each polled once, in %v", calls, time.Since(start))
	for i := range calls {
		require.NoError(t, errs[i])
		require.Equal(t, fmt.Sprint("call ", i), texts[i])
		n := float64(1000 * i)
		seen.require(t, fmt.Sprint("token", i), n+1, n+2, n+3)
	}
	require.EqualValues(t, calls, s.srv.Stats().Resumed)
	requireCleanStreams(t, s.wire)
}
