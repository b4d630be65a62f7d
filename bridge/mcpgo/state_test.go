package mcpgo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// recordingApp calls opened for each new session, and can move the last one to another app.
type recordingApp struct {
	rejoin.App
	opened  func(*rejoin.Session)
	last    *recordingAppSession
	release chan struct{} // not nil: requests wait until it is closed
}

type recordingAppSession struct {
	rejoin.AppSession
	session *rejoin.Session
	release chan struct{}
}

func (a *recordingApp) Open(r *http.Request, rs *rejoin.Session, saved []byte) (rejoin.AppSession, error) {
	if a.opened != nil {
		a.opened(rs)
	}
	inner, err := a.App.Open(r, rs, saved)
	if err != nil {
		return nil, err
	}
	a.last = &recordingAppSession{inner, rs, a.release}
	return a.last, nil
}

func (s *recordingAppSession) Request(c *rejoin.Call) {
	if s.release == nil || c.Method() == "initialize" {
		s.AppSession.Request(c)
		return
	}
	go func() {
		<-s.release
		s.AppSession.Request(c)
	}()
}

func (s *recordingAppSession) Notification(n *rejoin.Notification) { s.AppSession.Notification(n) }
func (s *recordingAppSession) Ended(cause error)                   { s.AppSession.Ended(cause) }

// reopen ends the AppSession of the last session, and opens a new one with the saved state, as another process would.
func (a *recordingApp) reopen(t *testing.T, other rejoin.App) {
	t.Helper()
	a.last.AppSession.Ended(nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if a.last.AppSession, err = other.Open(r, a.last.session, a.last.session.SavedState()); err != nil {
		t.Fatal(err)
	}
}

// Another process continues a session without initialize: it knows the client, can ask it, and keeps log level and subscriptions.
func TestASessionGoesOnInAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tools := map[string]handler{
			"look": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				for _, level := range []mcp.LoggingLevel{mcp.LoggingLevelDebug, mcp.LoggingLevelNotice} {
					if err := s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(level, "l", string(level))); err != nil {
						return "", err
					}
				}
				answer, err := elicit(ctx, s, "still there?")
				if err != nil {
					return "", err
				}
				l, _ := server.ClientSessionFromContext(ctx).(*clientSession)
				return fmt.Sprint(l.GetClientInfo().Name, l.GetClientCapabilities().Sampling != nil, l.GetClientCapabilities().Roots != nil,
					l.SubscribedResources(), l.ProtocolVersion(), " ", answer), nil
			},
		}
		hooks, hooks2 := &server.Hooks{}, &server.Hooks{}
		seen, seen2 := lifecycle(hooks), lifecycle(hooks2)
		recording := &recordingApp{App: New(newMCP(hooks, tools))}
		c := rejointest.New(t, recording, rejointest.Config{OnRequest: echo})
		c.Start("logging/setLevel", map[string]string{"level": "notice"}).Result()
		for _, m := range [][2]string{{"subscribe", "a:1"}, {"subscribe", "a:2"}, {"unsubscribe", "a:1"}} {
			c.Start("resources/"+m[0], map[string]string{"uri": m[1]}).Result()
		}
		look := func() {
			t.Helper()
			call := c.CallTool("look", nil)
			call.Result()
			same(t, "messages", summaries(t, call), []string{
				"notifications/message notice", "elicitation/create still there?", "result rejointesttrue true [a:2]2025-11-25 still there?",
			})
		}
		look()
		second := newMCP(hooks2, tools)
		recording.reopen(t, New(second))
		same(t, "first", seen.got(), []string{`+rejointest 2025-11-25 ""`, "-"})
		same(t, "second", seen2.got(), []string{`+rejointest 2025-11-25 ""`})
		look()
		before := string(recording.last.session.SavedState())
		c.Start("logging/setLevel", map[string]string{"level": "alert"}).Result()
		same(t, "saved again", string(recording.last.session.SavedState()), strings.Replace(before, "notice", "alert", 1))
		listen := c.Listen()
		second.SendNotificationToAllClients("notifications/all", nil)
		listen.WaitMessages(1)
		c.Delete()
		same(t, "second", seen2.got(), []string{`+rejointest 2025-11-25 ""`, "-"})
	})
}

func TestASavedStateThatIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app := New(newMCP(&server.Hooks{}, nil))
		recording := &recordingApp{App: app}
		rejointest.New(t, recording, rejointest.Config{})
		if _, err := app.Open(nil, recording.last.session, []byte("?")); err == nil {
			t.Fatal("it was taken")
		}
	})
}

// resources/subscribe affects only the session that sent it.
func TestSubscriptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sessions := &list[server.SessionWithResourceSubscriptions]{}
		hooks := &server.Hooks{}
		hooks.AddOnRegisterSession(func(_ context.Context, s server.ClientSession) {
			subs, _ := s.(server.SessionWithResourceSubscriptions)
			sessions.add(subs)
		})
		s := newMCP(hooks, nil)
		updated := func() {
			for _, session := range sessions.got() {
				if session.IsSubscribedToResource("a:1") {
					_ = s.SendNotificationToSpecificClient(session.SessionID(), mcp.MethodNotificationResourceUpdated, map[string]any{"uri": "a:1"})
				}
			}
			synctest.Wait()
		}
		app := New(s)
		c, other := rejointest.New(t, app, rejointest.Config{}), rejointest.New(t, app, rejointest.Config{})
		listen, otherListen := c.Listen(), other.Listen()
		updated()
		c.Start("resources/subscribe", map[string]string{"uri": "a:1"}).Result()
		updated()
		c.Start("resources/unsubscribe", map[string]string{"uri": "a:1"}).Result()
		updated()
		same(t, "its own", summaries(t, listen), []string{"notifications/resources/updated a:1"})
		same(t, "the other's", summaries(t, otherListen), []string{})
	})
}
