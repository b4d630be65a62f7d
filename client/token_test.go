package client_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
)

// ticking is a call that says 0 to 5, ten seconds apart, and then its result.
func ticking(t *testing.T, cfg rejoin.Config) *http.Client {
	t.Helper()
	_, hc := tool(t, cfg, func(ctx context.Context, h *rejoin.Handle) (any, error) {
		for i := range 6 {
			_ = h.Notify("notifications/message", map[string]any{"n": i})
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return map[string]any{"ok": true}, nil
	})
	return hc
}

// rest resumes a call in what might be another process.
func rest(t *testing.T, hc *http.Client, token string) ([]string, error) {
	t.Helper()
	call, err := client.Resume(t.Context(), address, token, client.Config{HTTP: hc})
	require.NoError(t, err)
	got := take(call)
	var result struct{ OK bool }
	err = call.Wait(t.Context(), &result)
	require.Equal(t, err == nil, result.OK)
	return got, err
}

func numbers(from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprintf(`{"n":%d}`, i))
	}
	return list
}

func TestATokenStandsAfterWhatWasYielded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hc := ticking(t, rejoin.Config{})
		s, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
		require.NoError(t, err)
		call := start(t, s)
		var tokens []string
		for range call.Messages() {
			tokens = append(tokens, call.Token())
			if len(tokens) == 3 {
				break
			}
		}
		<-time.After(15 * time.Second) // another has come, and nobody has taken it
		require.Equal(t, tokens[2], call.Token())
		s.Leave()
		got, err := rest(t, hc, tokens[2])
		require.NoError(t, err)
		require.Equal(t, numbers(3, 6), got, "each once")
		got, err = rest(t, hc, tokens[0])
		require.NoError(t, err)
		require.Equal(t, numbers(1, 6), got, "an older token repeats what came since")
	})
}

func TestATokenMovesOnWhileOnlyWaitWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hc := ticking(t, rejoin.Config{})
		s, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
		require.NoError(t, err)
		call := start(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		waited := make(chan error)
		go func() { waited <- call.Wait(ctx, nil) }()
		<-time.After(22 * time.Second)
		token := call.Token()
		require.ErrorIs(t, <-waited, context.DeadlineExceeded)
		select {
		case <-call.Done():
			require.Fail(t, "the end of a Wait ends no call")
		default:
		}
		got, err := rest(t, hc, token)
		require.NoError(t, err)
		require.Equal(t, numbers(3, 6), got)
		s.Leave()
	})
}

// The response is behind no token: who has the token, but not the response, gets it.
func TestTheResponseCanBeHadAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hc := ticking(t, rejoin.Config{Policy: rejoin.Policy{Retain: time.Minute}})
		s, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
		require.NoError(t, err)
		call := start(t, s)
		require.Len(t, take(call), 6)
		require.NoError(t, call.Wait(t.Context(), nil))
		s.Leave()
		for range 2 {
			got, err := rest(t, hc, call.Token())
			require.NoError(t, err)
			require.Empty(t, got)
		}
		<-time.After(10 * time.Minute)
		_, err = rest(t, hc, call.Token())
		require.ErrorIs(t, err, client.ErrExpired)
		<-time.After(10 * time.Hour)
		_, err = rest(t, hc, call.Token())
		require.ErrorIs(t, err, client.ErrSessionGone)
	})
}

func TestResumePollsAtOnceAndOnlyPolls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, "id: a\nretry: 60000\ndata: \n\n")
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, event("b", done)) },
		}
		_, s, call := play(t, server, client.Config{})
		synctest.Wait()
		token := call.Leave()
		posts := len(server.hits("POST", ""))
		begun := time.Now()
		again, err := client.Resume(t.Context(), address, token, client.Config{
			HTTP: serve(t, server), OnNotification: func(string, json.RawMessage) {},
		})
		require.NoError(t, err)
		require.NoError(t, again.Wait(t.Context(), nil))
		require.Zero(t, time.Since(begun))
		polls := server.hits("GET", "")
		require.Len(t, polls, 1, "the standalone stream is the session's")
		require.Equal(t, "a", polls[0].cursor)
		require.Equal(t, s.ID(), polls[0].session)
		require.Equal(t, "2025-11-25", polls[0].version)
		require.Len(t, server.hits("POST", ""), posts)
		require.Empty(t, server.hits("DELETE", ""), "the session is left alone")
		require.NotEmpty(t, again.Token())
	})
}

func TestATokenThatNoCallMadeIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := forever()
		_, _, call := play(t, server, client.Config{})
		synctest.Wait()
		good := call.Token()
		encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		bad := []string{
			"", "x", "not base64!", good + "=", " " + good, encode("{}"), encode("null"), encode("[]"),
			encode(`{"f":2,"v":"2025-11-25","i":"2","c":"a"}`),
			encode(`{"f":1,"v":"2025-11-25","i":"2","c":""}`),
			encode(`{"f":1,"v":"2025-11-25","i":"","c":"a"}`),
			encode(`{"f":1,"v":"2025-11-25","i":"{}","c":"a"}`),
			encode(`{"f":1,"v":"2025-11-25","i":"2","c":"a\r\nX: y"}`),
			encode(`{"f":1,"v":"2025-11-25\n","i":"2","c":"a"}`),
			encode(`{"f":1,"s":"a\u0000","v":"2025-11-25","i":"2","c":"a"}`),
			encode(`{"f":1,"v":"2025-11-25","i":"2","c":"` + strings.Repeat("a", 5000) + `"}`),
		}
		for n := range len(good) {
			bad = append(bad, good[:n])
		}
		for _, token := range bad {
			_, err := client.Resume(t.Context(), address, token, client.Config{})
			require.ErrorIs(t, err, client.ErrToken, token)
			if len(token) > 3 {
				require.NotContains(t, err.Error(), token, "a token is a secret")
			}
		}
		_, err := client.Resume(t.Context(), "nowhere", good, client.Config{})
		require.ErrorContains(t, err, "not an http or https URL")
	})
}

func TestATokenOfSomebodyElseIsRefusedByTheServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hc := ticking(t, rejoin.Config{})
		s := connect(t, hc, client.Config{})
		call := start(t, s)
		for range call.Messages() {
			break
		}
		raw, err := base64.RawURLEncoding.DecodeString(call.Token())
		require.NoError(t, err)
		swap := func(old, other string) string {
			require.Contains(t, string(raw), old)
			return base64.RawURLEncoding.EncodeToString([]byte(strings.ReplaceAll(string(raw), old, other)))
		}
		_, err = rest(t, hc, swap(s.ID(), "other"))
		require.ErrorIs(t, err, client.ErrSessionGone)
		_, err = rest(t, hc, swap(`"c":"`, `"c":"x`))
		require.ErrorIs(t, err, client.ErrExpired)
	})
}

// What the server asks and nobody has answered is asked again: a token stands before it.
func TestATokenStandsBeforeAnOpenQuestion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, hc := tool(t, rejoin.Config{}, func(ctx context.Context, h *rejoin.Handle) (any, error) {
			_ = h.Notify("notifications/message", map[string]any{"n": 0})
			_ = h.CloseStream(0) // the question comes on a resumed stream
			var answer struct{ Name string }
			if err := h.Ask(ctx, "elicitation/create", map[string]any{}, &answer); err != nil {
				return nil, err
			}
			return map[string]any{"ok": answer.Name == "second"}, nil
		})
		s, err := client.Connect(t.Context(), address, client.Config{
			HTTP: hc, Capabilities: map[string]any{"elicitation": struct{}{}},
			OnRequest: func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
				<-ctx.Done() // the process is killed while the user thinks
				return nil, context.Cause(ctx)
			},
		})
		require.NoError(t, err)
		call := start(t, s)
		for range call.Messages() {
			break
		}
		<-time.After(time.Minute)
		token := call.Token()
		s.Leave()
		require.Equal(t, token, call.Token(), "a question that was left is open")
		again, err := client.Resume(t.Context(), address, token, client.Config{
			HTTP: hc, OnRequest: func(context.Context, string, json.RawMessage) (any, error) {
				return map[string]string{"name": "second"}, nil
			},
		})
		require.NoError(t, err)
		var result struct{ OK bool }
		require.NoError(t, again.Wait(t.Context(), &result))
		require.True(t, result.OK)
	})
}
