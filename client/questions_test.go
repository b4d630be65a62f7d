package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

func ask(id, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"of":%s}}`, id, method, id)
}

// answers are the bodies of the client's responses.
func (s *script) answers() (list []string) {
	for _, h := range s.hits("POST", "") {
		if h.method == "" {
			list = append(list, h.body)
		}
	}
	return list
}

// A question is answered wherever it comes: on the stream of the POST, on a resumed one, on the session's own.
func TestQuestionsAreAnsweredOnEveryStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, event("a", ask(`"on post"`, "m")))
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				switch h.cursor {
				case "":
					stream(w, event("s", ask(`"on get"`, "m")))
					<-r.Context().Done()
				case "a":
					stream(w, event("b", ask(`7`, "m")))
				case "b":
					stream(w, event("c", ask(`"pinged"`, "ping"))+event("z", done))
				}
			},
		}
		_, s, call := play(t, server, client.Config{
			OnNotification: func(string, json.RawMessage) {},
			OnRequest: func(ctx context.Context, method string, params json.RawMessage) (any, error) {
				return map[string]any{"method": method, "params": params}, nil
			},
		})
		require.Empty(t, take(call), "questions are no messages")
		require.NoError(t, call.Wait(t.Context(), nil))
		synctest.Wait()
		require.NoError(t, s.Close(t.Context()))
		require.ElementsMatch(t, []string{
			`{"jsonrpc":"2.0","id":"on post","result":{"method":"m","params":{"of":"on post"}}}`,
			`{"jsonrpc":"2.0","id":"on get","result":{"method":"m","params":{"of":"on get"}}}`,
			`{"jsonrpc":"2.0","id":7,"result":{"method":"m","params":{"of":7}}}`,
			`{"jsonrpc":"2.0","id":"pinged","result":{}}`,
		}, server.answers())
	})
}

// asking is a server whose call is one question, and ends half a minute later.
func asking(question string) *script {
	return &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
		stream(w, event("a", question))
		select {
		case <-time.After(30 * time.Second):
			stream(w, event("b", done))
		case <-r.Context().Done():
		}
	}}
}

func TestAnErrorOfOnRequestReachesTheServer(t *testing.T) {
	type handler = func(context.Context, string, json.RawMessage) (any, error)
	for name, test := range map[string]struct {
		on   handler
		want string
		log  string
	}{
		"none": {nil, `{"code":-32601,"message":"this client answers no such request"}`, ""},
		"its own": {func(context.Context, string, json.RawMessage) (any, error) {
			return nil, fmt.Errorf("wrapped: %w", &client.Error{Code: -1, Message: "declined", Data: json.RawMessage(`{"a":1}`)})
		}, `{"code":-1,"message":"declined","data":{"a":1}}`, ""},
		"another": {func(context.Context, string, json.RawMessage) (any, error) {
			return nil, errors.New("the password is x")
		}, `{"code":-32603,"message":"internal error"}`, "the password is x"},
		"a panic": {func(context.Context, string, json.RawMessage) (any, error) { panic("the password is x") }, `{"code":-32603,"message":"internal error"}`, "the password is x"},
		"no JSON": {func(context.Context, string, json.RawMessage) (any, error) { return func() {}, nil }, `{"code":-32603,"message":"internal error"}`, "unsupported type"},
		"no JSON data": {func(context.Context, string, json.RawMessage) (any, error) {
			return nil, &client.Error{Data: json.RawMessage("{")}
		}, `{"code":-32603,"message":"internal error"}`, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var log bytes.Buffer
				server := asking(ask("1", "roots/list"))
				_, _, call := play(t, server, client.Config{OnRequest: test.on, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				require.NoError(t, call.Wait(t.Context(), nil))
				require.Equal(t, []string{`{"jsonrpc":"2.0","id":1,"error":` + test.want + `}`}, server.answers())
				require.Contains(t, log.String(), test.log)
				require.Equal(t, test.log == "", log.Len() == 0)
			})
		})
	}
}

func TestAWithdrawnQuestionIsNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := asking(ask(`"q"`, "m") + "\n\ndata: " +
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}` + "\n\ndata: " +
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`)
		var ended atomic.Bool
		_, _, call := play(t, server, client.Config{OnRequest: func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
			<-ctx.Done()
			ended.Store(true)
			return "an answer all the same", nil
		}})
		require.Empty(t, take(call), "what is withdrawn is no message either")
		require.NoError(t, call.Wait(t.Context(), nil))
		require.True(t, ended.Load())
		require.Empty(t, server.answers())
	})
}

// Nobody answers a question of a call that has ended, and nobody waits for one.
func TestTheEndOfACallEndsItsQuestions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := asking(ask("1", "m"))
		ended := make(chan struct{})
		_, _, call := play(t, server, client.Config{OnRequest: func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}})
		synctest.Wait()
		call.Cancel("")
		<-ended
		synctest.Wait()
		require.Empty(t, server.answers())
	})
}

func TestAnAnswerIsSentAgainWhenItDoesNotGetThrough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := asking(ask("1", "m"))
		tries := 0
		server.other = func(w http.ResponseWriter, r *http.Request, h hit) {
			if h.method != "" || h.verb != http.MethodPost {
				return
			}
			switch tries++; tries {
			case 1:
				c, _, _ := http.NewResponseController(w).Hijack()
				_ = c.Close()
			case 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		_, _, call := play(t, server, client.Config{OnRequest: func(context.Context, string, json.RawMessage) (any, error) { return 1, nil }})
		require.NoError(t, call.Wait(t.Context(), nil))
		require.Len(t, server.answers(), 3)
	})
}

func TestAnAnswerThatIsRefusedIsLogged(t *testing.T) {
	for status, sent := range map[int]int{400: 1, 404: 1, 500: 3} {
		bubble(t, func(t *testing.T) {
			var log bytes.Buffer
			server := asking(ask("1", "m"))
			server.other = func(w http.ResponseWriter, r *http.Request, h hit) {
				if h.method == "" && h.verb == http.MethodPost {
					w.WriteHeader(status)
				}
			}
			_, _, call := play(t, server, client.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, call.Wait(t.Context(), nil), "it fails no call")
			require.Len(t, server.answers(), sent)
			require.Contains(t, log.String(), "an answer could not be sent")
			require.Contains(t, log.String(), fmt.Sprint(status))
		})
	}
}

// A server that repeats a question that is being answered gets one answer; one that repeats it later, another.
func TestARepeatedQuestionIsNoProblem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, event("a", ask("1", "m"))+event("b", ask("1", "m")))
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				<-time.After(10 * time.Second)
				stream(w, event("c", ask("1", "m")))
				<-time.After(10 * time.Second)
				stream(w, event("d", done))
			},
		}
		var asked atomic.Int32
		_, _, call := play(t, server, client.Config{OnRequest: func(context.Context, string, json.RawMessage) (any, error) {
			asked.Add(1)
			<-time.After(5 * time.Second)
			return 1, nil
		}})
		require.NoError(t, call.Wait(t.Context(), nil))
		require.EqualValues(t, 2, asked.Load())
		require.Len(t, server.answers(), 2)
	})
}

func TestThousandsOfQuestionsAreAnsweredAFewAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var all strings.Builder
		for i := range 3000 {
			all.WriteString(event(fmt.Sprint(i), ask(fmt.Sprint(i), "m")))
		}
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			stream(w, all.String()+event("z", done))
			<-r.Context().Done()
		}}
		var mu sync.Mutex
		var now, most int
		_, s, call := play(t, server, client.Config{OnRequest: func(context.Context, string, json.RawMessage) (any, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return 1, nil
		}})
		require.NoError(t, call.Wait(t.Context(), nil))
		require.NoError(t, s.Close(t.Context()))
		require.Equal(t, 64, most)
		require.GreaterOrEqual(t, len(server.answers()), 2900)
	})
}

func TestAFloodOfQuestionsCanBeLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{post: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
			for i := 0; r.Context().Err() == nil; i++ {
				stream(w, event(fmt.Sprint(i), ask(fmt.Sprint(i), "m")))
			}
		}}
		_, s, call := play(t, server, client.Config{OnRequest: func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		synctest.Wait()
		call.Cancel("flood")
		require.NoError(t, s.Notify(t.Context(), "notifications/x", nil))
	})
}
