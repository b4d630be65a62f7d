package mcpgo

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
)

// features is behaviour of mcp-go that the bridge uses although mcp-go does not document it.
type features struct {
	headerKey       any  // the context key under which mcp-go looks up the request's header; nil: unknown
	announces       bool // mcp-go calls UpgradeToSSEWhenReceiveNotification before it sends a notification
	replacesSession bool // mcp-go's own transport accepts another session in place of its own
}

// detectFeatures tests mcp-go with servers made for that.
var detectFeatures = sync.OnceValue(func() features {
	return features{headerKey: probeHeaderKey(), announces: probeAnnounces(), replacesSession: probeReplacesSession()}
})

// warn logs what does not work.
func (f features) warn(log *slog.Logger) {
	if f.headerKey == nil {
		log.Warn("rejoin: this version of mcp-go is not known: request.Header is empty")
	}
	if !f.announces {
		log.Warn("rejoin: this version of mcp-go is not known: bursts of notifications can be refused")
	}
	if !f.replacesSession {
		log.Warn("rejoin: this version of mcp-go is not known: the last notifications of a modern call can be lost")
	}
}

const probeCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe"}}`

// probeHeaderKey calls a tool with a context that records the keys that mcp-go looks up. Then it tries which of them gives the tool its header.
func probeHeaderKey() (key any) {
	defer func() { _ = recover() }() // an unknown version may panic
	var got http.Header
	s := server.NewMCPServer("probe", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("probe"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		got = r.Header
		return mcp.NewToolResultText(""), nil
	})
	asked := &keyRecorder{Context: context.Background()}
	s.HandleMessage(asked, json.RawMessage(probeCall))
	for _, k := range asked.keys {
		got = nil
		s.HandleMessage(context.WithValue(context.Background(), k, http.Header{"Probe": {"1"}}), json.RawMessage(probeCall))
		if got.Get("Probe") == "1" {
			return k
		}
	}
	return nil
}

// keyRecorder is a context that records the keys that are looked up.
type keyRecorder struct {
	context.Context
	keys []any
}

func (r *keyRecorder) Value(key any) any {
	if t := reflect.TypeOf(key); t != nil && t.Kind() != reflect.Pointer { // package context looks up pointers
		r.keys = append(r.keys, key)
	}
	return r.Context.Value(key)
}

// probeAnnounces sends a notification, and reports whether it was announced to the session before.
func probeAnnounces() (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	s := server.NewMCPServer("probe", "1")
	session := &recordingSession{clientSession: clientSession{sessionState: &sessionState{initialized: true}}, ch: make(chan mcp.JSONRPCNotification, 2)}
	_ = s.SendNotificationToClient(s.WithContext(context.Background(), session), "probe", nil)
	return session.calls == "announced channel " && len(session.ch) == 1
}

// recordingSession is a session that records the calls of its methods.
type recordingSession struct {
	clientSession

	ch    chan mcp.JSONRPCNotification
	calls string
}

func (s *recordingSession) SessionID() string                    { return "probe" }
func (s *recordingSession) UpgradeToSSEWhenReceiveNotification() { s.calls += "announced " }
func (s *recordingSession) NotificationChannel() chan<- mcp.JSONRPCNotification {
	s.calls += "channel "
	return s.ch
}

// probeReplacesSession sends a notification from a modern call, and reports whether it goes through a modernSession.
func probeReplacesSession() (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	s := server.NewMCPServer("probe", "1", server.WithToolCapabilities(false))
	ours := false
	s.AddTool(mcp.NewTool("probe"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, ours = server.ClientSessionFromContext(ctx).(*modernSession)
		return mcp.NewToolResultText(""), s.SendNotificationToClient(ctx, "probe", nil)
	})
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe","_meta":{"` + mcp.MetaKeyProtocolVersion + `":"` +
		mcp.ProtocolVersion20260728 + `","` + mcp.MetaKeyClientCapabilities + `":{}}}}`
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "/", strings.NewReader(body))
	if err != nil {
		return false
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, mcp.HeaderProtocolVersion: {mcp.ProtocolVersion20260728},
		mcp.HeaderMethod: {string(mcp.MethodToolsCall)}, mcp.HeaderName: {"probe"},
	}
	var got bufferedResponse
	got.header = http.Header{}
	newModernSession(&got, r.Context()).serve(newUpstream(s), r)
	return ours && strings.Count(got.body.String(), "event: ") == 2
}

var _ rejoin.ModernApp = (*app)(nil)
