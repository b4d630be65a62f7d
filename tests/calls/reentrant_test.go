package calls_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// visitor stands for code of a user that calls the server from a callback. If the server holds a lock during the callback, visit never returns.
type visitor struct {
	srv  *rejoin.Server
	mu   sync.Mutex
	seen map[string]bool
}

func (v *visitor) visit(where string) {
	v.mu.Lock()
	v.seen[where] = true
	v.mu.Unlock()
	if v.srv == nil {
		return
	}
	v.srv.Stats()
	for info := range v.srv.Sessions() {
		_ = v.srv.CloseStream(rejoin.StreamRef(info.Ref), 0) // this is not the Ref of a stream
	}
}

// A store, a log handler and a response writer that call visit.
type (
	visitorStore struct {
		eventstore.Store
		v    *visitor
		fail bool
	}
	visitorEvents struct {
		eventstore.Log
		s *visitorStore
	}
	visitorLogger struct {
		slog.Handler
		v *visitor
	}
	visitorWriter struct {
		http.ResponseWriter
		v *visitor
	}
)

func (s *visitorStore) Log(k eventstore.Key) eventstore.Log {
	s.v.visit("Store.Log")
	return visitorEvents{s.Store.Log(k), s}
}

func (s *visitorStore) DropSession(ctx context.Context, session string) error {
	s.v.visit("Store.DropSession")
	return s.Store.DropSession(ctx, session)
}

func (l visitorEvents) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	l.s.v.visit("Log.Append")
	data := string(bytes.Join(events, nil))
	if l.s.fail && strings.Contains(data, "fail") {
		return kit.ErrStore
	}
	if l.s.fail && strings.Contains(data, "full") {
		return eventstore.ErrFull
	}
	return l.Log.Append(ctx, first, events, seal)
}

func (l visitorEvents) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	l.s.v.visit("Log.Read")
	return l.Log.Read(ctx, after, buf, maxBytes)
}

func (l visitorEvents) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	l.s.v.visit("Log.Restore")
	return l.Log.Restore(ctx, first, events, seal)
}

func (l visitorEvents) Mark(m eventstore.Mark) {
	l.s.v.visit("Log.Mark")
	l.Log.Mark(m)
}

func (l visitorEvents) Drop(ctx context.Context) error {
	l.s.v.visit("Log.Drop")
	return l.Log.Drop(ctx)
}

func (h visitorLogger) Enabled(context.Context, slog.Level) bool { return true }

func (h visitorLogger) Handle(_ context.Context, r slog.Record) error {
	h.v.visit("log: " + r.Message)
	return nil
}

func (w visitorWriter) Write(p []byte) (int, error) {
	w.v.visit("Write")
	return w.ResponseWriter.Write(p)
}

func (w visitorWriter) WriteHeader(status int) {
	w.v.visit("WriteHeader")
	w.ResponseWriter.WriteHeader(status)
}

func (w visitorWriter) Flush() {
	w.v.visit("Flush")
	w.ResponseWriter.(http.Flusher).Flush()
}

// Invariant 9: no store call, network write or user code runs under a lock: each of them may call the server.
func TestNothingOfAUsersRunsUnderALock(t *testing.T) {
	defer time.AfterFunc(time.Minute, func() { panic("a lock is held while user code runs") }).Stop() // of the real clock
	kit.Bubble(t, func(t *testing.T) {
		v := &visitor{seen: map[string]bool{}}
		store := &visitorStore{Store: eventstore.NewMemory(eventstore.MemoryConfig{}), v: v, fail: true}
		var calls []*rejoin.Call
		app := &kit.Fake{
			OnOpen: func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) {
				v.visit("App.Open")
				return &kit.Fake{
					OnRequest: func(c *rejoin.Call) {
						v.visit("AppSession.Request")
						switch c.Method() {
						case "x":
							calls = append(calls, c)
						default:
							kit.Accept(c)
						}
					},
					OnNotification: func(*rejoin.Notification) { v.visit("AppSession.Notification") },
					OnEnded:        func(error) { v.visit("AppSession.Ended") },
				}, nil
			},
		}
		c := kit.New(t, app, rejointest.Config{
			Server: rejoin.Config{
				Store: store, Logger: slog.New(visitorLogger{v: v}), KeepAlive: time.Second,
				Policy:    rejoin.Policy{Retain: time.Second, MaxRuntime: time.Hour},
				PolicyFor: func(_ rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy { v.visit("PolicyFor"); return p },
				Principal: func(*http.Request) string { v.visit("Principal"); return "" },
				CanPoll:   func(rejoin.ClientInfo, bool) bool { v.visit("CanPoll"); return true },
			},
			Handler: func(s *rejoin.Server) http.Handler {
				v.srv = s
				h := stdadapter.New(s)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(visitorWriter{w, v}, r) })
			},
			OnRequest: func(string, json.RawMessage) (any, error) { return nil, nil },
		})
		start := func() (*rejointest.Call, *rejoin.Call) {
			call := c.Start("x", nil)
			return call, calls[len(calls)-1]
		}
		listen := c.Listen()
		call, x := start()
		require.NoError(t, x.Handle().Notify("notifications/x", nil))
		x.Handle().Session().AskFunc(x.Context(), "roots/list", nil, func(json.RawMessage, error) { v.visit("reply") })
		require.NoError(t, x.Handle().CloseStream(0))
		call.Poll()
		require.NoError(t, x.Reply(nil))
		call.Result()
		call.Cut()

		call, x = start()
		require.ErrorIs(t, x.Handle().Notify("notifications/full", nil), rejoin.ErrFull)
		for range 2 { // the second one waits for its turn
			go func() { _ = x.Handle().Notify("notifications/full", nil) }()
		}
		synctest.Wait()
		require.NoError(t, x.Handle().Notify("notifications/fail", nil))
		require.ErrorIs(t, x.Handle().CloseStream(0), rejoin.ErrNotResumable)
		call.Cancel("")
		_, x = start()
		require.NoError(t, x.Handle().SetPolicy(rejoin.Policy{MaxRuntime: time.Second}))
		kit.Elapse(time.Minute)
		listen.Poll()
		_, _ = start()
		c.Delete()

		for _, what := range []string{
			"Store.Log", "Store.DropSession", "Log.Append", "Log.Read", "Log.Mark", "Log.Drop", "Write", "WriteHeader", "Flush", "App.Open",
			"AppSession.Request", "AppSession.Notification", "AppSession.Ended", "PolicyFor", "Principal", "CanPoll", "reply",
		} {
			require.True(t, v.seen[what], "the test does not get to %s", what)
		}
		logged := 0
		for what := range v.seen {
			if strings.HasPrefix(what, "log: ") {
				logged++
			}
		}
		require.GreaterOrEqual(t, logged, 3, "%v", v.seen)
	})
}

// The log handler is not called under a lock either when a waiting message is given up.
func TestTheLogOfAnUnsentMessageRunsUnderNoLock(t *testing.T) {
	defer time.AfterFunc(time.Minute, func() { panic("a lock is held while user code runs") }).Stop() // of the real clock
	kit.Bubble(t, func(t *testing.T) {
		v := &visitor{seen: map[string]bool{}}
		app, next := kit.ManualTools()
		store := kit.NewStuckStore(t)
		store.Store = kit.FullStore{Store: store.Store, N: 2}
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store, Logger: slog.New(visitorLogger{v: v})}})
		v.srv = c.Server()
		_, tool := kit.StuckCall(t, c, next, store)
		require.NoError(t, tool.Notify("notifications/x", nil), "it waits")
		store.Release()
		synctest.Wait()
		require.True(t, v.seen["log: rejoin: a message was lost, and its sender could not be told any more (said once)"], "%v", v.seen)
	})
}
