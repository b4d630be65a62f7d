package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// movableApp is an app whose sessions can move to another app while they are used.
type movableApp struct {
	rejoin.App
	sessions map[*rejoin.Session]*movableSession
	r        *http.Request
}

func (a *movableApp) Open(r *http.Request, s *rejoin.Session, saved []byte) (rejoin.AppSession, error) {
	inner, err := a.App.Open(r, s, saved)
	if err != nil {
		return nil, err
	}
	a.r = r
	a.sessions[s] = &movableSession{inner: inner}
	return a.sessions[s], nil
}

// move ends the AppSession of a session, and opens a new one in another app with the saved state.
func (a *movableApp) move(s *rejoin.Session, to rejoin.App) error {
	m := a.sessions[s]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inner.Ended(rejoin.ErrSessionEnded)
	inner, err := to.Open(a.r, s, s.SavedState())
	m.inner = inner
	return err
}

type movableSession struct {
	mu    sync.RWMutex
	inner rejoin.AppSession
}

func (s *movableSession) current() rejoin.AppSession {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.inner
}

func (s *movableSession) Request(c *rejoin.Call)              { s.current().Request(c) }
func (s *movableSession) Notification(n *rejoin.Notification) { s.current().Notification(n) }
func (s *movableSession) Ended(cause error)                   { s.current().Ended(cause) }

// movableServer is a server to which a session can move. Its tool asks, logs, and returns what the server knows about the client.
func movableServer(subscribed chan<- string, initialized *atomic.Int64) *mcp.Server {
	return newServer(&mcp.ServerOptions{
		SubscribeHandler: func(_ context.Context, r *mcp.SubscribeRequest) error {
			if r.Extra.Header.Get("Content-Type") == "" { // the header of the subscribe request, or of the request that opened the session
				return errors.New("no header")
			}
			subscribed <- "+" + r.Params.URI
			return nil
		},
		UnsubscribeHandler: func(_ context.Context, r *mcp.UnsubscribeRequest) error {
			subscribed <- "-" + r.Params.URI
			return nil
		},
		InitializedHandler: func(context.Context, *mcp.InitializedRequest) { initialized.Add(1) },
	}, map[string]handler{"x": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var errs [3]error
		errs[0] = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "too low"})
		errs[1] = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "high"})
		var res *mcp.ElicitResult
		if res, errs[2] = req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "color", RequestedSchema: colors}); errors.Join(errs[:]...) != nil {
			return nil, errors.Join(errs[:]...)
		}
		p := req.Session.InitializeParams()
		return text("%v %s %s %v", res.Content["color"], p.ClientInfo.Name, p.ProtocolVersion, p.Capabilities.RootsV2 != nil), nil
	}})
}

func TestALiveSessionMovesWithItsSavedState(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-03-26"} {
		t.Run(version, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				subscribed := make(chan string, 100)
				var initialized atomic.Int64
				servers := []*mcp.Server{movableServer(subscribed, &initialized), movableServer(subscribed, &initialized), movableServer(subscribed, &initialized)}
				a := &movableApp{App: New(servers[0]), sessions: map[*rejoin.Session]*movableSession{}}
				c := rejointest.New(t, a, rejointest.Config{OnRequest: acceptAll, Version: version})
				c.Start("logging/setLevel", map[string]string{"level": "warning"}).Result()
				for _, s := range []string{"+a:1", "+a:2", "-a:1", "+a:3"} {
					method := map[byte]string{'+': "resources/subscribe", '-': "resources/unsubscribe"}[s[0]]
					c.Start(method, map[string]string{"uri": s[1:]}).Result()
				}
				var session *rejoin.Session
				for session = range a.sessions { // the only one
				}
				standalone := c.Listen()
				var heard []string
				for i, s := range servers {
					if i > 0 { // the second move starts from a restored session
						if err := a.move(session, New(s)); err != nil {
							t.Fatal(err)
						}
					}
					call := c.CallTool("x", nil)
					call.Result()
					expect(t, "the call", call.Messages(), "message high", "create color", "result blue rejointest "+version+" true")
					for _, uri := range []string{"a:1", "a:2", "a:3"} {
						if err := s.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
					}
					heard = append(heard, "updated a:2", "updated a:3")
					expect(t, "the standalone stream", standalone.Messages(), heard...)
				}
				var all []string
				for range len(subscribed) {
					all = append(all, <-subscribed)
				}
				slices.Sort(all[4:]) // each move subscribes again, in any order
				if want := []string{"+a:1", "+a:2", "-a:1", "+a:3", "+a:2", "+a:2", "+a:3", "+a:3"}; !slices.Equal(all, want) {
					t.Errorf("subscribed %q", all)
				}
				c.Notify("notifications/initialized", nil) // the SDK ignores it: the restored session is initialized
				synctest.Wait()
				if n := initialized.Load(); n != 1 {
					t.Errorf("initialized %d times", n)
				}
				for i, s := range servers {
					if n := len(slices.Collect(s.Sessions())); n != i/2 {
						t.Errorf("server %d has %d sessions", i, n)
					}
				}
				var st savedState
				if err := json.Unmarshal(session.SavedState(), &st); err != nil || st.Version != version || !st.Initialized || st.LogLevel != "warning" {
					t.Errorf("%v %s", err, session.SavedState())
				}
				c.Start("logging/setLevel", map[string]string{"level": "debug"}).Result()
				c.Start("resources/unsubscribe", map[string]string{"uri": "a:2"}).Result()
				st = savedState{}
				if err := json.Unmarshal(session.SavedState(), &st); err != nil || st.LogLevel != "debug" || len(st.Subscribed) != 1 {
					t.Errorf("what changes after a move is not saved: %v %s", err, session.SavedState())
				}
				c.Delete()
				if n := goroutines("go-sdk"); n != 0 {
					t.Errorf("%d goroutines of the SDK's are left", n)
				}
			})
		})
	}
}

// A call that fails does not change the saved state.
func TestOnlyWhatTheServerAcceptedIsSaved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer(&mcp.ServerOptions{
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return errors.New("no") },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		}, nil)
		a := &movableApp{App: New(s), sessions: map[*rejoin.Session]*movableSession{}}
		c := rejointest.New(t, a, rejointest.Config{})
		for session := range a.sessions {
			before := string(session.SavedState())
			c.Start("resources/subscribe", map[string]string{"uri": "a:1"}).Err()
			c.Start("logging/setLevel", 7).Err()
			if after := string(session.SavedState()); after != before || before == "" {
				t.Errorf("%s became %s", before, after)
			}
		}
	})
}

func TestASavedStateThatIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer(nil, map[string]handler{"x": quick})
		a := &movableApp{App: New(s), sessions: map[*rejoin.Session]*movableSession{}}
		rejointest.New(t, a, rejointest.Config{})
		for session := range a.sessions {
			for _, saved := range []string{``, `x`, `{}`, `null`, `[]`, `{"initialize":7}`} {
				if opened, err := New(s).Open(a.r, session, []byte(saved)); err == nil || opened != nil {
					t.Errorf("%q was taken for one", saved)
				}
			}
		}
		if n := len(slices.Collect(s.Sessions())); n != 1 {
			t.Errorf("%d sessions of the SDK's", n)
		}
	})
}
