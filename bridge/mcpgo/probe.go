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

// traits are what the bridge uses of mcp-go without a promise.
type traits struct {
	headerKey any  // where in the context mcp-go looks for the request's header; nil: unknown
	announces bool // a notification is announced before it is sent
	swaps     bool // mcp-go's own transport takes another session for its own
}

// probed finds the traits out, on a server of its own.
var probed = sync.OnceValue(func() traits {
	return traits{headerKey: probeHeaderKey(), announces: probeAnnounces(), swaps: probeSwaps()}
})

// warn says what does not work.
func (t traits) warn(log *slog.Logger) {
	if t.headerKey == nil {
		log.Warn("rejoin: this version of mcp-go is not known: request.Header is empty")
	}
	if !t.announces {
		log.Warn("rejoin: this version of mcp-go is not known: bursts of notifications can be refused")
	}
	if !t.swaps {
		log.Warn("rejoin: this version of mcp-go is not known: the last notifications of a modern call can be lost")
	}
}

const probeCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe"}}`

// probeHeaderKey calls a tool to see which values of its context mcp-go asks for, and then which of them arrives as the header.
func probeHeaderKey() (key any) {
	defer func() { _ = recover() }() // of a version that is not known
	var got http.Header
	s := server.NewMCPServer("probe", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("probe"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		got = r.Header
		return mcp.NewToolResultText(""), nil
	})
	asked := &listener{Context: context.Background()}
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

// listener notes the keys that it is asked for.
type listener struct {
	context.Context
	keys []any
}

func (c *listener) Value(key any) any {
	if t := reflect.TypeOf(key); t != nil && t.Kind() != reflect.Pointer { // package context asks by pointers
		c.keys = append(c.keys, key)
	}
	return c.Context.Value(key)
}

// probeAnnounces sends a notification to see whether the session hears of it before it comes.
func probeAnnounces() (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	s := server.NewMCPServer("probe", "1")
	w := &witness{line: line{memory: &memory{ready: true}}, ch: make(chan mcp.JSONRPCNotification, 2)}
	_ = s.SendNotificationToClient(s.WithContext(context.Background(), w), "probe", nil)
	return w.order == "announced asked " && len(w.ch) == 1
}

// witness is a session that notes what mcp-go does with it.
type witness struct {
	line

	ch    chan mcp.JSONRPCNotification
	order string
}

func (w *witness) SessionID() string                    { return "probe" }
func (w *witness) UpgradeToSSEWhenReceiveNotification() { w.order += "announced " }
func (w *witness) NotificationChannel() chan<- mcp.JSONRPCNotification {
	w.order += "asked "
	return w.ch
}

// probeSwaps sends a notification from a modern call to see whether it comes by way of the line.
func probeSwaps() (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	s := server.NewMCPServer("probe", "1", server.WithToolCapabilities(false))
	ours := false
	s.AddTool(mcp.NewTool("probe"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, ours = server.ClientSessionFromContext(ctx).(*modernLine)
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
	var got keptAnswer
	got.header = http.Header{}
	newModernLine(&got, r.Context()).serve(newUpstream(s), r)
	return ours && strings.Count(got.body.String(), "event: ") == 2
}

var _ rejoin.App = (*app)(nil)
