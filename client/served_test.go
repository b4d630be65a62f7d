package client_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/client"
)

// served is a real server of both eras, whose tool is f.
func served(t *testing.T, cfg rejoin.Config, f func(ctx context.Context, h *rejoin.Handle) (any, error)) (*wire, *http.Client) {
	t.Helper()
	app := rejoin.NewToolApp(rejoin.Info{Name: "test", Version: "1"}, rejoin.Tool{
		Name: "größe", Run: func(ctx context.Context, _ *rejoin.Request) (any, error) {
			return f(ctx, rejoin.HandleFromContext(ctx))
		},
	})
	cfg.Logger = slog.New(slog.DiscardHandler)
	srv, err := rejoin.NewServer(app, cfg)
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	return serveOn(t, stdadapter.New(srv))
}

func TestAModernCallOfARealServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, hc := served(t, rejoin.Config{Eras: rejoin.EraBoth}, func(ctx context.Context, h *rejoin.Handle) (any, error) {
			if err := h.Progress(1, 2, "half"); err != nil {
				return nil, err
			}
			return map[string]any{"ok": true}, h.Notify("notifications/message", map[string]any{"level": "debug", "data": "x"})
		})
		s := connect(t, hc, client.Config{Era: client.EraModern})
		call, err := s.Start(t.Context(), "tools/call", map[string]any{
			"name": "größe", "arguments": map[string]any{"a": 1}, "_meta": map[string]any{"progressToken": 7},
		})
		require.NoError(t, err)
		require.Equal(t, []string{`{"progressToken":7,"progress":1,"total":2,"message":"half"}`, `{"data":"x","level":"debug"}`}, take(call))
		var result json.RawMessage
		require.NoError(t, call.Wait(t.Context(), &result))
		require.Contains(t, string(result), `"ok":true`)

		var list struct{ Tools []struct{ Name string } }
		require.NoError(t, s.Do(t.Context(), "tools/list", nil, &list))
		require.Equal(t, "größe", list.Tools[0].Name)
		require.NoError(t, s.Notify(t.Context(), "notifications/x", map[string]any{"a": 1}))
		var e *client.Error
		require.ErrorAs(t, s.Do(t.Context(), "tools/call", map[string]any{"name": "none"}, nil), &e, "the answer that it is in the legacy era")
		require.Equal(t, rejoin.CodeInvalidParams, e.Code)
		require.ErrorAs(t, s.Do(t.Context(), "no/such", nil, nil), &e)
		require.Equal(t, rejoin.CodeMethodNotFound, e.Code)
		_, err = s.Start(t.Context(), "tools/call", json.RawMessage("[]"))
		require.ErrorContains(t, err, "client: params: not an object")
	})
}

// slowly is a server of both eras whose call says something each 10 s, five times, and becomes a task after 15 s.
func slowly(t *testing.T) (*wire, *http.Client) {
	t.Helper()
	return served(t, rejoin.Config{Eras: rejoin.EraBoth, Policy: rejoin.Policy{TaskAfter: 15 * time.Second}},
		func(ctx context.Context, h *rejoin.Handle) (any, error) {
			for i := range 5 {
				_ = h.Progress(float64(i), 5, "")
				select {
				case <-time.After(10 * time.Second):
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
			return map[string]any{"ok": true}, nil
		})
}

func begin(t *testing.T, s *client.Session) *client.Call {
	t.Helper()
	call, err := s.Start(t.Context(), "tools/call", map[string]any{"name": "größe", "_meta": map[string]any{"progressToken": 1}})
	require.NoError(t, err)
	return call
}

// said are the texts of a call's messages, until it ends or so many have come.
func said(call *client.Call, n int) (texts []string) {
	for m := range call.Messages() {
		var p struct {
			StatusMessage string
			Progress      json.Number
		}
		_ = json.Unmarshal(m.Params, &p)
		if texts = append(texts, m.Method+" "+p.StatusMessage+string(p.Progress)); len(texts) == n {
			break
		}
	}
	return texts
}

func TestALongModernCallLivesThroughItsProxy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, hc := slowly(t)
		s := connect(t, hc, client.Config{})
		require.Equal(t, "2026-07-28", s.Version(), "it has tasks")
		call := begin(t, s)
		stop := time.AfterFunc(24*time.Second, func() { // whatever is connected is cut from then on
			w.cut()
			w.setDown(context.DeadlineExceeded)
		})
		defer stop.Stop()
		defer time.AfterFunc(31*time.Second, func() { w.setDown(nil) }).Stop()
		require.Equal(t, []string{
			"notifications/progress 0", "notifications/progress 1", "notifications/tasks 2 of 5", "notifications/tasks 3 of 5", "notifications/tasks 4 of 5",
		}, said(call, 0))
		var result json.RawMessage
		require.NoError(t, call.Wait(t.Context(), &result))
		require.Contains(t, string(result), `"ok":true`)
	})
}

func TestATaskOfARealServerIsResumed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, hc := slowly(t)
		s, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
		require.NoError(t, err)
		call := begin(t, s)
		require.Len(t, said(call, 3), 3)
		token := call.Token()
		w.cut()
		s.Leave() // as if it were killed
		<-time.After(12 * time.Second)
		again, err := client.Resume(t.Context(), address, token, client.Config{HTTP: hc})
		require.NoError(t, err)
		require.Equal(t, []string{"notifications/tasks 3 of 5", "notifications/tasks 4 of 5"}, said(again, 0))
		require.NoError(t, again.Wait(t.Context(), nil))

		<-time.After(time.Minute)
		again, err = client.Resume(t.Context(), address, token, client.Config{HTTP: hc})
		require.NoError(t, err)
		require.NoError(t, again.Wait(t.Context(), nil), "the result can be had again")
		<-time.After(time.Hour)
		again, err = client.Resume(t.Context(), address, token, client.Config{HTTP: hc})
		require.NoError(t, err)
		require.ErrorIs(t, again.Wait(t.Context(), nil), client.ErrExpired)
	})
}

func TestWhatCancelsAModernCallOfARealServer(t *testing.T) {
	for name, after := range map[string]time.Duration{"before the task": 5 * time.Second, "in the task": 25 * time.Second} {
		for how, cancel := range map[string]func(s *client.Session, call *client.Call){
			"Cancel": func(_ *client.Session, call *client.Call) { call.Cancel("enough") },
			"Close":  func(s *client.Session, _ *client.Call) { _ = s.Close(context.Background()) },
		} {
			t.Run(how+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					ended := make(chan error, 1)
					_, hc := served(t, rejoin.Config{Eras: rejoin.EraBoth, Policy: rejoin.Policy{TaskAfter: 15 * time.Second}},
						func(ctx context.Context, _ *rejoin.Handle) (any, error) {
							<-ctx.Done()
							ended <- context.Cause(ctx)
							return nil, context.Cause(ctx)
						})
					s := connect(t, hc, client.Config{})
					call := begin(t, s)
					<-time.After(after)
					require.Equal(t, after > 15*time.Second, call.Token() != "")
					begun := time.Now()
					cancel(s, call)
					cause := <-ended
					require.Zero(t, time.Since(begun), "at once")
					if call.Token() != "" {
						require.ErrorIs(t, cause, rejoin.ErrCancelled)
					}
				})
			})
		}
	}
}

func TestQuestionsOfATaskOfARealServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, hc := served(t, rejoin.Config{Eras: rejoin.EraBoth}, func(ctx context.Context, h *rejoin.Handle) (any, error) {
			var answers []string
			for range 2 {
				var answer struct{ Action string }
				form := map[string]any{"mode": "form", "message": "?", "requestedSchema": map[string]any{"type": "object"}}
				if err := h.Ask(ctx, "elicitation/create", form, &answer); err != nil {
					return nil, err
				}
				answers = append(answers, answer.Action)
			}
			return map[string]any{"answers": answers}, nil
		})
		user := &handler{}
		s := connect(t, hc, client.Config{OnRequest: user.on, Capabilities: map[string]any{"elicitation": struct{}{}}})
		call := begin(t, s)
		var result json.RawMessage
		require.NoError(t, call.Wait(t.Context(), &result))
		require.Contains(t, string(result), `["accept","accept"]`)
		require.Len(t, user.asked, 2)

		s = connect(t, hc, client.Config{Capabilities: map[string]any{"elicitation": struct{}{}}})
		var e *client.Error
		require.ErrorAs(t, begin(t, s).Wait(t.Context(), nil), &e, "a server is not offered what nobody answers")
	})
}

// A server that stops tells the tasks' clients so.
func TestAServerThatStopsEndsItsTasks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app := rejoin.NewToolApp(rejoin.Info{Name: "test", Version: "1"}, rejoin.Tool{
			Name: "größe", Run: func(ctx context.Context, _ *rejoin.Request) (any, error) {
				_ = rejoin.HandleFromContext(ctx).CloseStream(0)
				<-ctx.Done()
				return nil, context.Cause(ctx)
			},
		})
		srv, err := rejoin.NewServer(app, rejoin.Config{Eras: rejoin.EraBoth})
		require.NoError(t, err)
		hc := serve(t, stdadapter.New(srv))
		s := connect(t, hc, client.Config{})
		call := begin(t, s)
		synctest.Wait()
		require.NotEmpty(t, call.Token(), "the tool has made it a task")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.Error(t, srv.Drain(ctx))
		var e *client.Error
		require.ErrorAs(t, call.Wait(t.Context(), nil), &e)
		require.Equal(t, rejoin.ReasonShutdown, e.Reason())
		srv.Close()
	})
}

// A tool may want arguments repeated in header fields. The client learns which when it is refused, and from then on sends them.
func TestArgumentsAreRepeatedInTheHeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app := rejoin.NewToolApp(rejoin.Info{Name: "test", Version: "1"}, rejoin.Tool{
			Name: "book", InputSchema: json.RawMessage(`{"type":"object","properties":{
				"city":{"type":"string","x-mcp-header":"City"},"plain":{"type":"string"},"none":{"type":"string","x-mcp-header":"None"},
				"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"count"}}},"on":{"type":"boolean","x-mcp-header":"On"}}}`),
			Run: func(context.Context, *rejoin.Request) (any, error) { return "booked", nil },
		})
		srv, err := rejoin.NewServer(app, rejoin.Config{Eras: rejoin.EraBoth})
		require.NoError(t, err)
		t.Cleanup(srv.Close)
		var posts []string
		h := stdadapter.New(srv)
		s := connect(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			posts = append(posts, r.Header.Get("Mcp-Method"))
			h.ServeHTTP(w, r)
		})), client.Config{})
		for range 2 {
			require.NoError(t, s.Do(t.Context(), "tools/call", map[string]any{"name": "book", "arguments": map[string]any{
				"city": "Köln", "plain": "x", "deep": map[string]any{"n": 1234567890123}, "on": true,
			}}, nil))
		}
		require.Equal(t, []string{"server/discover", "tools/call", "tools/list", "tools/call", "tools/call"}, posts)
	})
}

// A refusal that no header field of an argument explains is what it is.
func TestARefusedHeaderIsLookedUpOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{on: on{
			"tools/call": func(w http.ResponseWriter, h request, n int) { h.refuse(w, 400, -32020) },
			"tools/list": func(w http.ResponseWriter, h request, n int) {
				h.answer(w, `{"tools":[{"name":"x","inputSchema":{"properties":{"a":{"x-mcp-header":"A\r\nB"},"b":{"x-mcp-header":"B"},"c":true}}}],"nextCursor":"more"}`)
			},
		}}
		_, _, call := playTask(t, server, client.Config{})
		var e *client.StatusError
		require.ErrorAs(t, call.Wait(t.Context(), nil), &e)
		require.Equal(t, -32020, e.Err.Code)
		require.Len(t, server.hits("tools/call"), 2)
		require.Len(t, server.hits("tools/list"), 2)
	})
}
