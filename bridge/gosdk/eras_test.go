package gosdk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

const modernVersion = "2026-07-28"

// field returns a field that older versions of the SDK do not have.
func field[S any](s *S, name string) reflect.Value {
	return reflect.ValueOf(s).Elem().FieldByName(name)
}

// askColor asks the user for a color. It returns an input request as the tool's result, which the SDK turns into an elicitation for older
// clients. Older versions of the SDK have no input requests; with them askColor uses elicitation. If again is not nil, the tool must return it.
func askColor(ctx context.Context, req *mcp.CallToolRequest) (color string, again *mcp.CallToolResult, err error) {
	again = &mcp.CallToolResult{}
	requests := field(again, "InputRequests")
	if !requests.IsValid() {
		res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "color", RequestedSchema: colors})
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprint(res.Content["color"]), nil, nil
	}
	if responses := field(req.Params, "InputResponses"); responses.Len() > 0 {
		raw, err := json.Marshal(responses.Interface())
		if err != nil {
			return "", nil, err
		}
		var all map[string]mcp.ElicitResult
		err = json.Unmarshal(raw, &all)
		return fmt.Sprint(all["c"].Content["color"]), nil, err
	}
	const question = `{"c":{"method":"elicitation/create","params":{"message":"color","requestedSchema":` +
		`{"type":"object","properties":{"color":{"type":"string"}}}}}}`
	return "", again, json.Unmarshal([]byte(question), requests.Addr().Interface())
}

// clientVersions returns the versions that the client of this SDK can use; "" is its default.
func clientVersions() []string {
	if field(new(mcp.ClientSessionOptions), "ProtocolVersion").IsValid() {
		return []string{"", modernVersion, "2025-11-25", "2025-06-18", "2025-03-26"}
	}
	return []string{""}
}

// modernEra reports whether the SDK has the modern era. A test of that era has nothing to test with an older SDK, which
// TestTheSDKsVersionsThatAreSupported runs it with. An SDK of which the bridge does not see that it has the era fails the test.
func modernEra(t *testing.T) bool {
	t.Helper()
	has := newModern(nil) != nil
	if field(&mcp.CallToolResult{}, "InputRequests").IsValid() != has { // a part of that era alone
		t.Fatalf("the bridge finds the modern era: %t, but the SDK says otherwise", has)
	}
	return has
}

// newErasFixture serves all eras that the SDK has.
func newErasFixture(t *testing.T) *fixture {
	cfg := rejoin.Config{Eras: rejoin.EraBoth}
	if !modernEra(t) {
		cfg.Eras = rejoin.EraLegacy
	}
	f := newFixture(t, cfg, nil)
	mcp.AddTool(f.mcp, &mcp.Tool{Name: "color"}, func(ctx context.Context, req *mcp.CallToolRequest, _ toolArgs) (*mcp.CallToolResult, any, error) {
		color, again, err := askColor(ctx, req)
		if err != nil || again != nil {
			return again, nil, err
		}
		h := rejoin.HandleFromContext(ctx)
		closes := req.Extra.CloseSSEStream != nil
		if closes {
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: time.Millisecond})
		}
		return text("%s %v %v %v", color, closes, h.CloseStream(0), rejoin.ServerFromContext(ctx) == f.srv), nil, nil
	})
	return f
}

// connectVersion connects a client that uses a version; "" is its default.
func (f *fixture) connectVersion(version string, opts *mcp.ClientOptions) (s *mcp.ClientSession, modern bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	f.t.Cleanup(cancel)
	var o mcp.ClientSessionOptions
	if version != "" {
		field(&o, "ProtocolVersion").SetString(version)
	} else if version = newestLegacy; f.app.modern != nil {
		version = modernVersion
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, opts).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: f.url}, &o)
	if err != nil {
		f.t.Fatal(err)
	}
	if got := s.InitializeResult().ProtocolVersion; got != version {
		f.t.Fatalf("it speaks %s", got)
	}
	return s, version == modernVersion
}

// With one URL and one server, clients of each version can be asked, and get notifications.
func TestClientsOfAllErasOnOneURL(t *testing.T) {
	f := newErasFixture(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var sessions []*mcp.ClientSession
	told := make([]chan string, len(clientVersions()))
	for i, version := range clientVersions() {
		told[i] = make(chan string, 16)
		s, modern := f.connectVersion(version, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "not " + r.Params.Message}}, nil
			},
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { told[i] <- "changed" },
		})
		sessions = append(sessions, s)
		polls := s.InitializeResult().ProtocolVersion == newestLegacy
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "color", Arguments: toolArgs{}})
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		want := "not color false " + rejoin.ErrNotResumable.Error() + " true"
		switch {
		case polls:
			want = "not color true <nil> true"
		case modern:
			want = "not color true " + rejoin.ErrNotResumable.Error() + " true" // the SDK's function, which does nothing
		}
		if got := res.Content[0].(*mcp.TextContent).Text; got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
	f.mcp.AddTool(&mcp.Tool{Name: "new", InputSchema: map[string]any{"type": "object"}}, nil)
	for i, version := range clientVersions() {
		receive(t, "what "+version+" is told", told[i])
	}
	for _, s := range sessions {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// In the modern era a disconnect cancels a call.
func TestADisconnectCancelsWhereItShould(t *testing.T) {
	f := newErasFixture(t)
	for _, version := range clientVersions() {
		s, modern := f.connectVersion(version, nil)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "block", Arguments: toolArgs{}})
			over <- err
		}()
		receive(t, "the tool", f.started)
		cancel() // an older client sends notifications/cancelled
		if cause := receive(t, "the end of the tool's context", f.causes); modern == (cause == rejoin.ErrCancelled) {
			t.Errorf("%q: the tool ended with %v", version, cause)
		}
		if err := receive(t, "the end of the call", over); err == nil {
			t.Errorf("%q: no error", version)
		}
		if err := s.Close(); err != nil && !modern { // the modern client of v1.7.0 and v1.8.0 returns an error after a cancelled call
			t.Error(err)
		}
	}
	close(f.release)
}

func TestAnSDKWithoutTheModernEra(t *testing.T) {
	s := newServer(nil, nil)
	without := New(s).(*app)
	without.modern = nil
	if _, err := rejoin.NewServer(without, rejoin.Config{Eras: rejoin.EraBoth}); err == nil {
		t.Error("it serves an era that it has not")
	}
	if without.Modern() != nil {
		t.Error("not nil")
	}
	if setField(new(mcp.StreamableHTTPOptions), "PropagateRequestCancellation", true) != (New(s).Modern() != nil) {
		t.Error("the modern era is there where a disconnect can cancel, and only there")
	}
}

// The limit of rejoin applies to bodies, not that of the SDK.
func TestModernBodiesAreLimitedByRejoinAlone(t *testing.T) {
	f := newFixture(t, rejoin.Config{Eras: rejoin.EraLegacy}, nil)
	if !modernEra(t) {
		return
	}
	f.serve(rejoin.Config{Eras: rejoin.EraBoth, MaxBodyBytes: 16 << 20}, f.app)
	s, _ := f.connectVersion("", nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "whoami", Arguments: toolArgs{strings.Repeat("x", 6<<20)}}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// If a handler returns neither a result nor an error, its client gets an error in both eras, and the process continues. The SDK itself would
// write null to older clients, and for newer clients dereference a nil pointer.
func TestANilResultIsAnError(t *testing.T) {
	for _, method := range []string{"tools/call", "prompts/get"} { // for resources/read the SDK returns an error itself
		bubble(t, func(t *testing.T) {
			j := &logBuffer{}
			s := newServer(nil, map[string]handler{"nothing": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil }})
			s.AddPrompt(&mcp.Prompt{Name: "nothing"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) { return nil, nil })
			bridged := New(s).(*app)
			cfg := rejoin.Config{Logger: j.logger()}
			if bridged.modern != nil {
				cfg.Eras = rejoin.EraBoth
			}
			srv, err := rejoin.NewServer(bridged, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Close()
			post := func(header, value, body string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, "http://example.com/mcp", strings.NewReader(body))
				r.Header = http.Header{
					"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, header: {value},
					"Mcp-Method": {method}, "Mcp-Name": {"nothing"},
				}
				w := httptest.NewRecorder()
				srv.Serve(w, r)
				return w
			}
			call := func(meta string) string {
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"name":"nothing"}}`, method, meta)
			}
			session := post("X", "", initialize).Header().Get("Mcp-Session-Id")
			got := []string{post("Mcp-Session-Id", session, call("")).Body.String()}
			if bridged.modern != nil {
				got = append(got, post("Mcp-Protocol-Version", modernVersion, call(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
					`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}},`)).Body.String())
			}
			for _, answer := range got {
				if !strings.Contains(answer, `"error":{"code":-32603,"message":"internal error"}`) {
					t.Errorf("%s is answered with %s", method, answer)
				}
			}
			if n := j.count("rejoin: "); n != 1 { // the modern era has no session, so its handler logs with slog.Default
				t.Errorf("%s: logged %d times: %s", method, n, j.lines.String())
			}
		})
	}
}
