package modern_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const (
	undeclared = `"io.modelcontextprotocol/clientCapabilities":{}`
	declared   = `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// probeOf is a server/discover request with these members in its _meta. header is as for kit.Request.
func probeOf(t *testing.T, members string, header ...string) *http.Request {
	t.Helper()
	body := strings.Replace(kit.ModernBody("server/discover", "", ""), undeclared, members, 1)
	return kit.Request(t, http.MethodPost, body, append([]string{"Mcp-Protocol-Version", "2026-07-28"}, header...)...)
}

// byClient is a server that chooses the era by the client. Its handler of modern requests answers with an error that nothing else has.
func byClient(t *testing.T, cfg rejoin.Config) *rejoin.Server {
	t.Helper()
	return kit.NewServer(t, kit.BothEras{Fake: &kit.Fake{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTeapot)
		puts(t, w, `{"jsonrpc":"2.0","id":"mine","error":{"code":418,"message":"handed"}}`)
	})}, cfg)
}

const (
	toLegacy = `400 error(-32600,"mine") ended`
	toModern = `418 error(418,"mine") ended`
)

// Config.CanPoll decides about probes too, in both directions. It is asked only where its answer counts, and gets what it gets when the client
// opens a session.
func TestCanPollDecidesAboutProbes(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		type question struct {
			client   rejoin.ClientInfo
			presumed bool
		}
		var asked []question
		s := byClient(t, rejoin.Config{CanPoll: func(c rejoin.ClientInfo, presumed bool) bool {
			asked = append(asked, question{c, presumed})
			return presumed && c.Name != "mute" || c.Name == "rmcp"
		}})
		named := func(name, version string) string {
			return undeclared + `,"io.modelcontextprotocol/clientInfo":{"name":"` + name + `","version":"` + version + `","icons":[]}`
		}
		for _, test := range []struct {
			members, agent, want string
			presumed             bool
		}{
			{named("typescript", "1"), "node", toLegacy, true},
			{named("mute", "1"), "node", toModern, true},
			{named("ai-sdk-mcp-client", "1.0.0"), "ai-sdk/2.0.99", toModern, false},
			{named("rmcp", "2.2.0"), "", toLegacy, false},
			{undeclared, "", toLegacy, true},
		} {
			require.Equal(t, test.want, kit.Serve(s, probeOf(t, test.members, "User-Agent", test.agent)).Summary(), test.members)
			require.Equal(t, test.presumed, asked[len(asked)-1].presumed, test.members)
			require.Equal(t, test.agent, asked[len(asked)-1].client.UserAgent)
			require.Equal(t, "2025-11-25", asked[len(asked)-1].client.Protocol, "the version to which it falls back")
		}
		require.Len(t, asked, 5)
		require.Equal(t, rejoin.ClientInfo{
			Name: "typescript", Version: "1", Protocol: "2025-11-25", UserAgent: "node",
			Raw: json.RawMessage(`{"name":"typescript","version":"1","icons":[]}`), Capabilities: json.RawMessage(`{}`),
		}, asked[0].client)
		require.Equal(t, rejoin.ClientInfo{Protocol: "2025-11-25", Capabilities: json.RawMessage(`{}`)}, asked[4].client)

		w := kit.Serve(s, kit.Request(t, http.MethodPost, strings.Replace(kit.Initialize, `"clientInfo":{`, `"clientInfo":{"icons":[],`, 1), "User-Agent", "node"))
		require.Equal(t, "200 result ended", w.Summary())
		require.Len(t, asked, 6)
		require.Equal(t, "2025-11-25", asked[5].client.Protocol)

		for _, r := range []*http.Request{
			probeOf(t, declared), kit.Request(t, http.MethodPost, kit.ModernPing), kit.Request(t, http.MethodPost, kit.ModernNotification),
			kit.Request(t, http.MethodPost, kit.ModernBody("tools/call", `,"name":"x"`, "")),
		} {
			require.Equal(t, toModern, kit.Serve(s, r).Summary())
		}
		require.Len(t, asked, 6, "nothing depends on it")
	})
}

// If CanPoll says that nobody polls, the legacy era helps nobody, so every client gets the era that it prefers.
func TestWhereNobodyPollsNoProbeIsRefused(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := byClient(t, rejoin.Config{CanPoll: func(rejoin.ClientInfo, bool) bool { return false }})
		require.Equal(t, toModern, kit.Serve(s, probeOf(t, undeclared)).Summary())
		require.Equal(t, rejoin.Stats{}, s.Stats())
	})
}

// A panic of CanPoll means the same for a probe as for a session: the client does not poll.
func TestCanPollPanicsAtAProbe(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		said := &kit.Log{}
		s := byClient(t, rejoin.Config{
			CanPoll: func(rejoin.ClientInfo, bool) bool { panic("secret") }, Logger: slog.New(slog.NewTextHandler(said, nil)),
		})
		w := kit.Serve(s, probeOf(t, undeclared))
		require.Equal(t, toModern, w.Summary())
		require.NotContains(t, w.Body.String(), "secret")
		require.Len(t, said.All, 1)
		require.Contains(t, said.All[0], "Config.CanPoll")
	})
}

// Probes are not logged, and what a client says of itself may be as long as its body.
func TestALongProbe(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		said := &kit.Log{}
		var asked rejoin.ClientInfo
		s := byClient(t, rejoin.Config{Logger: slog.New(slog.NewTextHandler(said, nil)), CanPoll: func(c rejoin.ClientInfo, presumed bool) bool {
			asked = c
			return presumed
		}})
		long := strings.Repeat("x", 100_000)
		about := `,"io.modelcontextprotocol/clientInfo":{"name":"ai-sdk-mcp-client","icons":"` + long + `","version":"1"}`
		require.Equal(t, toModern, kit.Serve(s, probeOf(t, undeclared+about)).Summary())
		require.JSONEq(t, `{"name":"ai-sdk-mcp-client","version":"1"}`, string(asked.Raw), "it is reduced as that of initialize is")
		capabilities := strings.Replace(declared, `"extensions":{`, `"experimental":"`+long+`","extensions":{"x":"`+long+`",`, 1)
		require.Equal(t, toModern, kit.Serve(s, probeOf(t, capabilities)).Summary(), "the declaration is found in whatever it stands")
		require.Equal(t, toLegacy, kit.Serve(s, probeOf(t, strings.Replace(capabilities, "tasks", "other", 1))).Summary())
		require.JSONEq(t, `{"elicitation":{}}`, string(asked.Capabilities))
		require.Empty(t, said.All)
	})
}
