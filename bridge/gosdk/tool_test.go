package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// numbered is a middleware that numbers the requests, in their context, header and token.
func numbered(h http.Handler) http.Handler {
	var last atomic.Int64
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{Extra: map[string]any{"n": token}, UserID: "ann", Expiration: time.Now().Add(time.Hour)}, nil
	}
	h = auth.RequireBearerToken(verify, nil)(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := fmt.Sprint(last.Add(1))
		r = r.WithContext(context.WithValue(r.Context(), trace{}, n))
		r.Header.Set("X-Trace", n)
		r.Header.Set("Authorization", "Bearer "+n)
		h.ServeHTTP(w, r)
	})
}

// A tool keeps the values of its request after that has ended and others have come.
func TestAToolSeesItsOwnRequestAfterItEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		see := func(ctx context.Context, extra *mcp.RequestExtra) string {
			return fmt.Sprint(ctx.Value(trace{}), extra.Header.Get("X-Trace"), extra.TokenInfo.Extra["n"], auth.TokenInfoFromContext(ctx).Extra["n"])
		}
		release, notified := make(chan struct{}), make(chan string, 1)
		s := newServer(&mcp.ServerOptions{
			RootsListChangedHandler: func(ctx context.Context, _ *mcp.RootsListChangedRequest) { notified <- fmt.Sprint(ctx.Value(trace{})) },
		}, map[string]handler{"x": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			before := see(ctx, req.Extra)
			<-release
			return text("%s %s", before, see(ctx, req.Extra)), nil
		}})
		c := rejointest.New(t, New(s), rejointest.Config{
			Server:  rejoin.Config{Principal: Principal, Policy: rejoin.Policy{Mode: rejoin.ModeSSE}},
			Handler: func(srv *rejoin.Server) http.Handler { return numbered(stdadapter.New(srv)) },
		})
		var calls []*rejointest.Call // requests 3 to 6, after initialize and initialized
		for range 4 {
			k := c.CallTool("x", nil)
			elapse(time.Second) // the client has a primer now
			k.Cut()
			calls = append(calls, k)
		}
		c.Notify("notifications/roots/list_changed", nil)
		close(release)
		for i, k := range calls {
			k.Result()
			n := fmt.Sprint(i + 3)
			expect(t, "the call", k.Messages(), "result "+strings.Repeat(n+n+n+n+" ", 2)[:9])
		}
		if got := <-notified; got != "7" {
			t.Errorf("a notification's handler sees the values of request %s", got)
		}
		for info := range c.Server().Sessions() {
			if info.Principal != "ann" {
				t.Errorf("the session is %q's", info.Principal)
			}
		}
	})
}

func TestTheHandleIsThereAtAnyDepth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		deep := func(ctx context.Context) error {
			errs := make(chan error)
			type key struct{}
			ctx, cancel := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Minute)
			defer cancel()
			go func() {
				errs <- rejoin.HandleFromContext(ctx).Notify("notifications/message", map[string]string{"data": "deep"})
			}()
			if rejoin.ServerFromContext(ctx) == nil {
				return errors.New("no server")
			}
			return <-errs
		}
		s := newServer(&mcp.ServerOptions{
			CompletionHandler: func(ctx context.Context, _ *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
				return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, deep(ctx)
			},
		}, map[string]handler{"x": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("x"), deep(ctx)
		}})
		s.AddPrompt(&mcp.Prompt{Name: "p"}, func(ctx context.Context, _ *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, deep(ctx)
		})
		s.AddResource(&mcp.Resource{Name: "r", URI: "a:1"}, func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "a:1", Text: "x"}}}, deep(ctx)
		})
		c := rejointest.New(t, New(s), rejointest.Config{})
		for method, params := range map[string]string{
			"tools/call": `{"name":"x"}`, "prompts/get": `{"name":"p"}`, "resources/read": `{"uri":"a:1"}`,
			"completion/complete": `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}`,
		} {
			call := c.Start(method, json.RawMessage(params))
			call.Result()
			expect(t, method, call.Messages()[:1], "message deep")
		}
	})
}

func TestCloseSSEStreamAnyNumberOfTimes(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(version, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const rounds = 7
				polls := version == "2025-11-25"
				var after func(mcp.CloseSSEStreamArgs)
				s := newServer(nil, map[string]handler{"x": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					if after = req.Extra.CloseSSEStream; after == nil {
						return text("x"), nil
					}
					for n := range rounds {
						for range 3 { // a client that is away stays away
							after(mcp.CloseSSEStreamArgs{RetryAfter: 50 * time.Millisecond})
						}
						if err := errors.Join(progress(ctx, req, n, fmt.Sprint(n)), req.Session.Ping(ctx, nil)); err != nil {
							return nil, err
						}
					}
					return text("x"), nil
				}})
				c := rejointest.New(t, New(s), rejointest.Config{Version: version, OnRequest: acceptAll})
				call := c.CallTool("x", nil)
				if polls {
					for range rounds {
						if retry := call.WaitClosed(); retry < 50*time.Millisecond || retry > 60*time.Millisecond {
							t.Errorf("it is to come back after %v", retry)
						}
						call.Poll()
					}
				}
				call.Result()
				if polls != (after != nil) {
					t.Fatalf("CloseSSEStream is set: %v", after != nil)
				}
				want := 1
				if polls {
					after(mcp.CloseSSEStreamArgs{}) // has no effect
					want += 2 * rounds
				}
				if n := len(call.Messages()); n != want {
					t.Errorf("%d messages: %q", n, summaries(call.Messages()))
				}
			})
		})
	}
}

// Ids come back unchanged, also if a float64 cannot hold them.
func TestIDsComeBackAsTheyWereSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, New(newServer(nil, map[string]handler{"x": quick})), rejointest.Config{})
		for _, id := range []string{`1.5`, `9007199254740993`, `9007199254740992`, `"1"`, `1`, `1e3`, `1000`, `-0`, `"\u0061"`, `"a"`, `""`, `1E+2`} {
			for method, params := range map[string]string{"tools/call": `{"name":"x"}`, "nonsense": `{}`, "tools/list": `null`} {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				var got struct{ ID json.RawMessage }
				if err := json.NewDecoder(c.Do(req).Body).Decode(&got); err != nil || string(got.ID) != id {
					t.Errorf("%s came back as %s %v", body, got.ID, err)
				}
			}
		}
	})
}

// If there is no room for a message, only its sender gets an error.
func TestWhatHasNoRoomIsTheSendersToKnow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var refused error
		s := newServer(nil, map[string]handler{"x": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{})
			for n := range 1000 {
				if refused = progress(ctx, req, n, strings.Repeat("x", 1000)); errors.Is(refused, rejoin.ErrFull) {
					break
				}
			}
			return text("x"), nil
		}})
		store := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 100_000})
		c := rejointest.New(t, New(s), rejointest.Config{Server: rejoin.Config{Store: store}})
		call := c.CallTool("x", nil)
		call.WaitClosed()
		call.Result()
		if !errors.Is(refused, rejoin.ErrFull) {
			t.Errorf("the sender was told %v", refused)
		}
		c.CallTool("x", nil).Result()
	})
}
