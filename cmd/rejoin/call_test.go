package main_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

func TestACallWhoseServerLetsItGo(t *testing.T) {
	s := serve(t)
	p := start(t, "call", s.url, "job")
	s.progress(1)
	s.do(func(h *rejoin.Handle) { require.NoError(t, h.CloseStream(time.Millisecond)) })
	s.progress(2)
	s.do(func(h *rejoin.Handle) { require.NoError(t, h.WaitConnected(t.Context())) })
	s.do(func(h *rejoin.Handle) { require.NoError(t, h.CloseStream(time.Millisecond)) })
	s.progress(3)
	s.finish()
	require.Equal(t, 0, p.exit())
	require.Equal(t, "the job is done\n", p.stdout.String())
	require.Equal(t, "progress 1/4 (25%)\nprogress 2/4 (50%)\nprogress 3/4 (75%)\n", p.stderr.String(), "each once, in order")
	require.Zero(t, s.sessions(), "the session is ended")
}

func TestArgumentsAreJSONWhereTheyAre(t *testing.T) {
	s := serve(t)
	p := start(t, "call", s.url, "echo", "--args", `{"a":1,"b":[1,2]}`, "-a", "a=2", "-a", "big=12345678901234567890",
		"--arg", "text=two words", "--arg", "quoted=\"7\"", "--arg", "none=", "--arg", "eq=a=b", "--arg", "yes=true")
	require.Equal(t, 0, p.exit())
	require.JSONEq(t, `{"a":2,"b":[1,2],"big":12345678901234567890,"text":"two words","quoted":"7","none":"","eq":"a=b","yes":true}`, p.stdout.String())
	require.Contains(t, p.stdout.String(), "12345678901234567890", "digit by digit")
}

func TestExitCodes(t *testing.T) {
	s := serve(t)
	dead := "http://127.0.0.1:1/mcp" // nobody may listen there
	for _, test := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"call URL fails", 1, "it did not work\n", ""},
		{"call URL nothing", 1, "", `the server answered with JSON-RPC error -32602: unknown tool "nothing"`},
		{"call URL nothing --json", 1, `{"type":"error","error":{"code":-32602,"message":"unknown tool \"nothing\""}}` + "\n", ""},
		{"", 0, "Available Commands", ""},
		{"call --help", 0, "4 the call was left", ""},
		{"nonsense", 2, "", "unknown command"},
		{"call URL", 2, "", "accepts 2 arg(s)"},
		{"call URL echo --nonsense", 2, "", "unknown flag"},
		{"call URL echo --arg nonsense", 2, "", "must be name=value"},
		{"call URL echo --args [1]", 2, "", "must be a JSON object"},
		{"call URL echo --args null", 2, "", "must be a JSON object"},
		{"call URL echo --header nonsense", 2, "", "must be 'Name: value'"},
		{"call URL echo --header Mcp-Session-Id:x", 2, "", "the protocol decides"},
		{"call URL echo --header mcp-name:x", 2, "", "the protocol decides"},
		{"call URL echo --era old", 2, "", "must be auto, legacy or modern"},
		{"call URL echo --token-file .", 2, "", "exists"},
		{"resume", 2, "", "resume wants a token"},
		{"resume nonsense", 2, "", "not a token"},
		{"resume URL#nonsense", 2, "", "malformed token"},
		{"resume --token-file no-such-file", 2, "", "there is no no-such-file"},
		{"call " + dead + " echo", 3, "", "refused"},
		{"call nonsense echo", 3, "", "not an http or https URL"},
		{"tools " + dead + " --json", 3, `{"type":"failure","message":"`, ""},
		{"listen " + dead, 3, "", "refused"},
	} {
		t.Run(test.args, func(t *testing.T) {
			p := start(t, strings.Fields(strings.ReplaceAll(test.args, "URL", s.url))...)
			require.Equal(t, test.code, p.exit(), "%s", &p.stderr)
			require.Contains(t, p.stdout.String(), test.stdout)
			require.Contains(t, p.stderr.String(), test.stderr)
			if test.stdout == "" {
				require.Empty(t, p.stdout.String())
			}
		})
	}
}

func TestJSON(t *testing.T) {
	s := serve(t)
	p := start(t, "call", s.url, "job", "--json")
	s.progress(1)
	s.do(func(h *rejoin.Handle) {
		require.NoError(t, h.Notify("notifications/message", map[string]any{"level": "info", "data": "a\nb"}))
	})
	s.finish()
	require.Equal(t, 0, p.exit())
	require.Equal(t, []string{
		`{"type":"message","method":"notifications/progress","params":{"progressToken":1,"progress":1,"total":4}}`,
		`{"type":"message","method":"notifications/message","params":{"data":"a\nb","level":"info"}}`,
		`{"type":"result","result":{"content":[{"text":"the job is done","type":"text"}]}}`,
	}, strings.Split(strings.TrimSuffix(p.stdout.String(), "\n"), "\n"))
	require.Empty(t, p.stderr.String())
}

func TestTools(t *testing.T) {
	s := serve(t)
	p := start(t, "tools", s.url)
	require.Equal(t, 0, p.exit())
	require.Equal(t, "job  Does what it is told to.\necho  Says  [2Jit again\n", p.stdout.String(), "of both pages, and nothing that a terminal would obey")
	require.Zero(t, s.sessions(), "the session is ended")

	p = start(t, "tools", s.url, "--json")
	require.Equal(t, 0, p.exit())
	lines := strings.Split(strings.TrimSpace(p.stdout.String()), "\n")
	require.Len(t, lines, 2)
	require.JSONEq(t, `{"type":"tool","tool":{"name":"job","description":"Does what it is told to.\nAnd more."}}`, lines[0])
}

func TestListen(t *testing.T) {
	s := serve(t)
	p := start(t, "listen", s.url, "--trace")
	p.stderr.await(t, "head status=200")
	require.NoError(t, (<-s.opened).Notify(t.Context(), "notifications/tools/list_changed", nil))
	p.stdout.await(t, "notifications/tools/list_changed\n")
	p.signal(os.Interrupt)
	require.Equal(t, 0, p.exit())
	require.Zero(t, s.sessions(), "the session is ended")
}

func TestHeadersGoWithEveryRequest(t *testing.T) {
	s := serve(t)
	p := start(t, "call", s.url, "job", "-H", "authorization: Bearer secret", "--header", "X-Two: 2")
	s.do(func(h *rejoin.Handle) { require.NoError(t, h.Progress(1, 2, "")) })
	s.do(func(h *rejoin.Handle) { require.NoError(t, h.CloseStream(time.Millisecond)) })
	s.do(func(h *rejoin.Handle) { require.NoError(t, h.WaitConnected(t.Context())) })
	s.finish()
	require.Equal(t, 0, p.exit())
	verbs := ""
	for _, r := range s.seen() {
		verbs += r.Method + " "
		require.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
		require.Equal(t, "2", r.Header.Get("X-Two"))
	}
	require.Equal(t, "POST POST POST POST GET DELETE ", verbs, "what the server speaks, initialize, initialized, the call, a poll, the end")
}

// Servers may not ask, since no capability says so, and this package's do not.
func TestTheCommandOffersNothing(t *testing.T) {
	s := serve(t)
	p := start(t, "call", s.url, "job")
	s.do(func(h *rejoin.Handle) {
		require.ErrorIs(t, h.Ask(t.Context(), "elicitation/create", map[string]any{"message": "?"}, nil), rejoin.ErrNotOffered)
		require.ErrorIs(t, h.Ask(t.Context(), "sampling/createMessage", nil, nil), rejoin.ErrNotOffered)
	})
	s.finish()
	require.Equal(t, 0, p.exit())
}

// One that asks all the same is told no, and the tool goes on.
func TestQuestionsAreDeclined(t *testing.T) {
	s := serve(t)
	s.mu.Lock()
	s.offers = `{"elicitation":{},"sampling":{}}`
	s.mu.Unlock()
	p := start(t, "call", s.url, "job")
	s.do(func(h *rejoin.Handle) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var answer json.RawMessage
		require.NoError(t, h.Ask(ctx, "elicitation/create", map[string]any{"message": "?"}, &answer))
		require.JSONEq(t, `{"action":"decline"}`, string(answer))
		require.ErrorContains(t, h.Ask(ctx, "sampling/createMessage", nil, nil), "this client is a command")
	})
	s.finish()
	require.Equal(t, 0, p.exit())
	require.Contains(t, p.stderr.String(), "the server asked for elicitation/create, which this command declines\n")
}

func TestARefusalSaysWhatTheServerSays(t *testing.T) {
	s := serve(t)
	p := start(t, "call", strings.TrimSuffix(s.url, "/mcp")+"/mcp", "echo", "-H", "Origin: https://elsewhere.example")
	require.Equal(t, 3, p.exit())
	require.Contains(t, p.stderr.String(), "403 "+http.StatusText(http.StatusForbidden))
}
