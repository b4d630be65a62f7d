package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
)

// The tests named TestClient test package client with servers of others, and with rejoin.

// kind says what a server can do for a client that resumes a stream.
type kind int

const (
	forgets kind = iota // nothing: it gives no event ids
	repeats             // it repeats what it has sent, and has the result; what it sends while the client is away may be lost
	primes              // nothing is lost, and an event id comes before the first message
)

// house is a server for the client.
type house struct {
	name  string
	kind  kind
	mount func(t *testing.T, w work) http.Handler
}

func houses() []house {
	return []house{
		{"go-sdk", forgets, own(goSDK, false)},
		{"go-sdk with a store", primes, own(goSDK, true)},
		{"mcp-go", forgets, own(mcpGo, false)},
		{"mcp-go with a store", repeats, own(mcpGo, true)},
		{"rejoin", primes, bridged(sdk{bridge: newWorkApp})},
		{"rejoin with go-sdk", primes, bridged(goSDK)},
		{"rejoin with mcp-go", primes, bridged(mcpGo)},
	}
}

// newWorkApp is an app of rejoin's own with the one tool.
func newWorkApp(w work) rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "test", Version: "1"}, func(ctx context.Context, r *rejoin.Request) (any, error) {
		var params struct{ Name string }
		if err := r.Bind(&params); err != nil || params.Name != "work" {
			return nil, rejoin.Errorf(rejoin.CodeInvalidParams, "no such tool")
		}
		h := rejoin.HandleFromContext(ctx)
		text := w(desk{
			ctx:      ctx,
			progress: func(message string) error { return h.Progress(1, 0, message) },
			broadcast: func(message string) {
				params, _ := json.Marshal(map[string]any{"progressToken": "all", "progress": 1, "message": message})
				_ = h.Session().Notify(context.Background(), "notifications/progress", params)
			},
			letGo: func(after time.Duration) string { return letGo(ctx, after) },
		})
		return map[string]any{"content": []map[string]any{{"type": "text", "text": text}}}, nil
	})
}

// visit is a session with a server in a bubble. It counts the calls of the tool, and can cut connections.
type visit struct {
	*testing.T
	*scissors
	session *client.Session
	calls   atomic.Int64
	polls   chan time.Time // the times of polls
}

func enter(t *testing.T, s house, w work, cfg client.Config) *visit {
	v := &visit{T: t, scissors: &scissors{}, polls: make(chan time.Time, 10_000)}
	handler := s.mount(t, w)
	b := open(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the request was cut off
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			v.calls.Add(1)
		}
		if r.Header.Get("Last-Event-ID") != "" {
			v.polls <- time.Now()
		}
		handler.ServeHTTP(rw, r)
	}))
	transport := b.transport()
	transport.DialContext = v.dial(transport.DialContext)
	cfg.HTTP, cfg.Logger = &http.Client{Transport: transport}, slog.New(slog.DiscardHandler)
	session, err := client.Connect(t.Context(), "http://localhost/mcp", cfg)
	require.NoError(t, err)
	v.session = session
	t.Cleanup(func() {
		if err := session.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Logf("the end of the session: %v", err)
		}
	})
	return v
}

// call calls the tool, and returns the messages and the text of the result. A call that hangs fails the test.
func (v *visit) call() (told []string, text string, err error) {
	ctx, cancel := context.WithTimeout(v.Context(), time.Hour)
	defer cancel()
	c, err := v.session.Start(ctx, "tools/call", map[string]any{
		"name": "work", "arguments": map[string]any{}, "_meta": map[string]any{"progressToken": "t"},
	})
	require.NoError(v, err)
	for m := range c.Messages() {
		told = append(told, textOf(m))
	}
	var result struct {
		Content []struct{ Text string }
	}
	if err := c.Wait(ctx, &result); err != nil {
		require.NotErrorIs(v, err, context.DeadlineExceeded, "a call must not hang")
		return told, "", err
	}
	require.Len(v, result.Content, 1)
	return told, result.Content[0].Text, nil
}

func textOf(m client.Message) string {
	var params struct{ Message string }
	_ = json.Unmarshal(m.Params, &params) // without a message it is ""
	return params.Message
}

// A tool closes its stream again and again. The client polls each time, not before the time that it was told. Whether the tool sends
// something in between or not, each message comes once and in order, and then the result.
func TestClientIsLetGo(t *testing.T) {
	for _, s := range houses() {
		if s.kind != primes {
			continue // it cannot close streams
		}
		for name, told := range map[string][]string{
			"once": {"a"}, "three times": {"a", "b", "c"}, "in silence": {""}, "three times in silence": {"", "", ""},
		} {
			t.Run(s.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var closed []time.Time
					v := enter(t, s, func(d desk) string {
						for _, message := range told {
							if message != "" {
								_ = d.progress(message)
							}
							if how := d.letGo(time.Second); how != "closed" {
								return how
							}
							closed = append(closed, time.Now())
							<-time.After(10 * time.Second)
						}
						return "done"
					}, client.Config{})
					got, text, err := v.call()
					require.EqualValues(t, 1, v.calls.Load(), "a call is sent once, whatever becomes of it")
					require.NoError(t, err)
					require.Equal(t, "done", text)
					require.Equal(t, strings.Join(told, ""), strings.Join(got, ""))
					require.Len(t, v.polls, len(told), "one poll for each time that it was let go")
					for _, at := range closed {
						require.GreaterOrEqual(t, (<-v.polls).Sub(at), time.Second)
					}
				})
			})
		}
	}
}

// Notifications outside of calls come on the standalone stream: before its connection is cut, while there is none, and after that.
func TestClientListens(t *testing.T) {
	for _, s := range houses() {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				message := "before"
				v := enter(t, s, func(d desk) string {
					d.broadcast(message)
					return "done"
				}, client.Config{})
				heard := make(chan string, 10)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				left := make(chan error, 1)
				go func() {
					var err error
					for m, e := range v.session.Listen(ctx) {
						if err = e; err == nil {
							heard <- textOf(m)
						}
					}
					left <- err
				}()
				synctest.Wait()
				say := func(text string) {
					message = text
					_, _, err := v.call()
					require.NoError(t, err)
					synctest.Wait()
				}
				say("before")
				v.cutNow("GET ")
				synctest.Wait()
				say("meanwhile")
				elapse(time.Minute)
				say("after")
				elapse(time.Minute)
				leave()
				require.NoError(t, <-left)
				close(heard)
				got := slices.Collect(func(yield func(string) bool) {
					for text := range heard {
						if !yield(text) {
							return
						}
					}
				})
				want := []string{"before", "meanwhile", "after"}
				if s.kind == forgets {
					want = []string{"before", "after"} // it stores nothing
				}
				require.Equal(t, want, got)
			})
		})
	}
}

// A JSON-RPC error of the server is the error of the call, unchanged.
func TestClientIsRefused(t *testing.T) {
	for _, s := range houses() {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := enter(t, s, func(desk) string { return "done" }, client.Config{})
				err := v.session.Do(t.Context(), "tools/call", map[string]any{"name": "none"}, nil)
				var refusal *client.Error
				require.ErrorAs(t, err, &refusal)
				_, text, err := v.call()
				require.NoError(t, err, "the session lives")
				require.Equal(t, "done", text)
			})
		})
	}
}
