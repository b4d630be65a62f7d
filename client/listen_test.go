package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
)

// heard collects what Listen yields: params, and the error, which must come last.
func heard(ctx context.Context, s *client.Session) (got []string, last error) {
	for m, err := range s.Listen(ctx) {
		if last != nil {
			got = append(got, "after the error")
		}
		if last = err; err == nil {
			got = append(got, string(m.Params))
		}
	}
	return got, last
}

func TestListenFollowsTheStandaloneStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, "retry: 500\n\n"+event(fmt.Sprint("s", n), note(n)))
			if n == 4 {
				<-r.Context().Done()
			}
		}}
		s := connect(t, serve(t, server), client.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		got, err := heard(ctx, s)
		require.NoError(t, err, "the end of the context is no error")
		require.Equal(t, numbers(1, 5), got)
		polls := server.hits("GET", "")
		require.Empty(t, polls[0].header.Values("Last-Event-Id"))
		for i := 1; i < 4; i++ {
			require.Equal(t, fmt.Sprint("s", i), polls[i].cursor)
			within(t, 500*time.Millisecond, polls[i].at-polls[i-1].at)
		}
		n := 0
		for range s.Listen(t.Context()) {
			n++
			break
		}
		require.Equal(t, 1, n)
	})
}

func TestListenEndsWithTheReason(t *testing.T) {
	for name, test := range map[string]struct {
		get  func(w http.ResponseWriter, r *http.Request, h hit, n int)
		want error
		is   any
	}{
		"none (405)": {nil, client.ErrNoStandalone, nil},
		"none (501)": {func(w http.ResponseWriter, r *http.Request, h hit, n int) { w.WriteHeader(http.StatusNotImplemented) }, client.ErrNoStandalone, nil},
		"none (204)": {func(w http.ResponseWriter, r *http.Request, h hit, n int) { w.WriteHeader(http.StatusNoContent) }, client.ErrNoStandalone, nil},
		"gone":       {func(w http.ResponseWriter, r *http.Request, h hit, n int) { w.WriteHeader(http.StatusNotFound) }, client.ErrSessionGone, nil},
		"refused":    {func(w http.ResponseWriter, r *http.Request, h hit, n int) { w.WriteHeader(http.StatusUnauthorized) }, nil, new(*client.StatusError)},
		"given up":   {func(w http.ResponseWriter, r *http.Request, h hit, n int) { w.WriteHeader(http.StatusBadGateway) }, nil, new(*client.GaveUpError)},
		"closed at once, again and again": {
			func(w http.ResponseWriter, r *http.Request, h hit, n int) { stream(w, "") }, nil, new(*client.GaveUpError),
		},
		"no stream": {func(w http.ResponseWriter, r *http.Request, h hit, n int) { answer(w, h, "1") }, client.ErrProtocol, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &script{get: test.get, post: func(w http.ResponseWriter, r *http.Request, h hit, n int) { answer(w, h, "1") }}
				s := connect(t, serve(t, server), client.Config{})
				got, err := heard(t.Context(), s)
				require.Empty(t, got)
				if test.want != nil {
					require.ErrorIs(t, err, test.want)
				}
				if test.is != nil {
					require.ErrorAs(t, err, test.is)
				}
				require.NoError(t, s.Do(t.Context(), "tools/call", nil, nil), "no call is harmed")
			})
		})
	}
}

// Where the server has lost the place, the stream begins anew; and so often only, without anything new.
func TestAStandaloneStreamThatLostItsPlaceBeginsAnew(t *testing.T) {
	for _, status := range []int{204, 400, 410} {
		bubble(t, func(t *testing.T) {
			var log bytes.Buffer
			server := &script{get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				switch {
				case h.cursor != "":
					w.WriteHeader(status)
				case n < 6:
					stream(w, event("s", note(n)))
				default:
					w.WriteHeader(http.StatusMethodNotAllowed)
				}
			}}
			s := connect(t, serve(t, server), client.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			got, err := heard(t.Context(), s)
			require.ErrorIs(t, err, client.ErrNoStandalone)
			require.Equal(t, []string{`{"n":1}`, `{"n":3}`, `{"n":5}`}, got)
			require.Contains(t, log.String(), "begins anew")
		})
	}
}

func TestASessionIsListenedToUntilClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, err := client.Connect(t.Context(), address, client.Config{HTTP: serve(t, forever())})
		require.NoError(t, err)
		ended := make(chan error)
		go func() {
			_, err := heard(context.Background(), s)
			ended <- err
		}()
		synctest.Wait()
		require.NoError(t, s.Close(t.Context()))
		require.ErrorIs(t, <-ended, client.ErrClosed)
	})
}

func TestOnNotificationGetsWhatIsSaidOutsideOfCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		server := &script{get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, event("s"+fmt.Sprint(n), note(n)))
			if n == 3 {
				<-r.Context().Done()
			}
		}}
		var got []string
		s := connect(t, serve(t, server), client.Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			OnNotification: func(method string, params json.RawMessage) {
				got = append(got, method+string(params))
				if len(got) == 2 {
					panic("of the caller")
				}
			},
		})
		<-time.After(30 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{`notifications/message{"n":1}`, `notifications/message{"n":2}`, `notifications/message{"n":3}`}, got)
		require.Contains(t, log.String(), "Config.OnNotification panicked")
		_, err := heard(t.Context(), s)
		require.ErrorIs(t, err, client.ErrListening)
	})
}

func TestAStandaloneStreamThatIsGivenUpIsLogged(t *testing.T) {
	for status, logged := range map[int]bool{405: false, 403: true, 500: true} {
		bubble(t, func(t *testing.T) {
			var log bytes.Buffer
			server := &script{get: func(w http.ResponseWriter, r *http.Request, h hit, n int) { w.WriteHeader(status) }}
			connect(t, serve(t, server), client.Config{
				Logger: slog.New(slog.NewTextHandler(&log, nil)), OnNotification: func(string, json.RawMessage) {},
			})
			<-time.After(time.Hour)
			synctest.Wait()
			require.Equal(t, logged, log.Len() > 0)
		})
	}
}

// rejoin's own standalone stream: silent for a day, with keep-alives, and every message once, whatever breaks.
func TestRejoinsStandaloneStreamIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, hc := tool(t, rejoin.Config{}, func(ctx context.Context, h *rejoin.Handle) (any, error) {
			return nil, h.Session().Notify(context.Background(), "notifications/message", json.RawMessage(`{"n":1}`))
		})
		s := connect(t, hc, client.Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		var got []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			got, _ = heard(ctx, s)
		}()
		<-time.After(24 * time.Hour)
		for range 3 {
			require.NoError(t, s.Do(t.Context(), "tools/call", nil, nil))
			w.cut()
			<-time.After(5 * time.Minute)
		}
		cancel(errors.New("enough"))
		<-ended
		require.Len(t, got, 3)
	})
}

// Some servers drop what they have to say while nobody listens: the stream stands before the first call can be sent.
func TestConnectWaitsForTheStandaloneStream(t *testing.T) {
	for name, test := range map[string]struct{ answered, waited time.Duration }{
		"for its head": {time.Second, time.Second}, "not for ever": {50 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				begun := time.Now()
				connect(t, serve(t, &script{get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
					pause(r, test.answered)
					stream(w, primer("s"))
					<-r.Context().Done()
				}}), client.Config{OnNotification: func(string, json.RawMessage) {}})
				require.Equal(t, test.waited, time.Since(begun))
			})
		})
	}
}
