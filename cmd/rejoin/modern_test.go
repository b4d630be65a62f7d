package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

func TestTheModernEraHasTheSameExitCodes(t *testing.T) {
	s := serveEras(t, rejoin.EraModern)
	for _, test := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"call URL echo --arg a=1", 0, `{"a":1}` + "\n", ""},
		{"call URL echo --arg a=1 --era modern", 0, `{"a":1}` + "\n", ""},
		{"call URL fails", 1, "it did not work\n", ""},
		{"call URL nothing", 1, "", `the server answered with JSON-RPC error -32602: unknown tool "nothing"`},
		{"call URL nothing --json", 1, `{"type":"error","error":{"code":-32602,"message":"unknown tool \"nothing\""}}` + "\n", ""},
		{"tools URL", 0, "job  Does what it is told to.\necho  Says  [2Jit again\n", ""},
		{"call URL echo --era legacy", 3, "", "the server offers protocol version 2026-07-28; this client speaks 2025-11-25"},
	} {
		t.Run(test.args, func(t *testing.T) {
			p := start(t, strings.Fields(strings.ReplaceAll(test.args, "URL", s.url))...)
			require.Equal(t, test.code, p.exit(), "%s", &p.stderr)
			require.Equal(t, test.stdout, p.stdout.String())
			require.Contains(t, p.stderr.String(), test.stderr)
		})
	}
	require.Zero(t, s.sessions())

	s = serve(t)
	p := start(t, "call", s.url, "echo", "--era", "modern")
	require.Equal(t, 3, p.exit())
	require.Contains(t, p.stderr.String(), "this client was to speak 2026-07-28")
}

func TestTheTraceOfAModernCall(t *testing.T) {
	s := serveEras(t, rejoin.EraModern)
	p := start(t, "call", s.url, "job", "--trace")
	s.progress(1)
	s.finish()
	require.Equal(t, 0, p.exit())
	require.Equal(t, `trace +T start rejoin=V go=V os=V
trace +T post stream=0 method=server/discover
trace +T head stream=0 status=200
trace +T event stream=0 bytes=N
trace +T close stream=0
trace +T session protocol=2026-07-28
trace +T post stream=1 method=tools/call
trace +T head stream=1 status=200
trace +T event stream=1 method=notifications/progress bytes=N
trace +T event stream=1 bytes=N
trace +T close stream=1
`, anonymous(p.stderr.String()))
}

// Without a task there is nothing to come back for: the end of the connection cancels the call.
func TestCtrlCBeforeThereIsATaskCancels(t *testing.T) {
	s := serveEras(t, rejoin.EraModern)
	p := start(t, "call", s.url, "job")
	s.progress(1)
	p.stderr.await(t, "progress 1/4")
	p.signal(os.Interrupt)
	require.Equal(t, 5, p.exit())
	require.Error(t, s.cancelled())
	require.NotContains(t, p.stderr.String(), "rejoin resume")
}

func TestListenInTheModernEra(t *testing.T) {
	s := serveEras(t, rejoin.EraModern)
	p := start(t, "listen", s.url, "--trace")
	p.stderr.await(t, "event method=notifications/subscriptions/acknowledged")
	p.signal(os.Interrupt)
	require.Equal(t, 0, p.exit())
	require.NotContains(t, p.stdout.String(), "acknowledged", "that is about the stream")
}
