package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// task makes the call a task, and waits until it is one: until then progress goes to the response of the call.
func (s *server) task() {
	s.t.Helper()
	made := s.Stats().TasksMade
	s.do(func(h *rejoin.Handle) { require.NoError(s.t, h.CloseStream(0)) })
	require.Eventually(s.t, func() bool { return s.Stats().TasksMade > made }, patience, time.Millisecond)
}

// The program dies in a long call of the modern era, and finds back with what it had written down.
func TestAKilledProgramGoesOnWithTheTokenFileOfItsTask(t *testing.T) {
	s := serveEras(t, rejoin.EraBoth)
	file := filepath.Join(t.TempDir(), "token")
	p := start(t, "call", s.url, "job", "--token-file", file)
	s.progress(1)
	p.stderr.await(t, "progress 1/4")
	require.NoFileExists(t, file, "there is nothing to come back for yet")
	s.task()
	awaitFile(t, file)
	s.progress(2)
	p.stderr.await(t, "progress 2 of 4")
	p.kill(file)
	s.progress(3) // while it is dead
	p = resumeFrom(t, s, file)
	p.stderr.await(t, "progress 3 of 4")
	s.progress(4)
	s.finish()
	require.Equal(t, 0, p.exit())
	require.Equal(t, "the job is done\n", p.stdout.String())
	require.True(t, strings.HasSuffix(p.stderr.String(), "progress 3 of 4\nprogress 4 of 4\n"), "the newest that came meanwhile, and the rest")
	requireNothingKept(t, file)
}

func TestCtrlCLeavesATaskAndItsTokenGoesOn(t *testing.T) {
	s := serveEras(t, rejoin.EraBoth)
	p := start(t, "call", s.url, "job", "--json")
	s.task()
	s.progress(1)
	p.stdout.await(t, `"status":"working","statusMessage":"1 of 4"}`)
	p.signal(os.Interrupt)
	require.Equal(t, 4, p.exit())
	_, token, _ := strings.Cut(p.stdout.lastLine(), `"token":"`)
	token, _, _ = strings.Cut(token, `"`)
	require.True(t, strings.HasPrefix(token, s.url+"#"), "one sees where it leads")

	p = start(t, "resume", token, "--era", "legacy") // the token knows better
	s.progress(2)
	p.stderr.await(t, "progress 2 of 4")
	s.finish()
	require.Equal(t, 0, p.exit())
	require.Equal(t, "the job is done\n", p.stdout.String())
	require.Equal(t, "progress 2 of 4\n", p.stderr.String(), "what was printed is not printed again")
}

func TestCtrlCWithCancelCancelsATask(t *testing.T) {
	s := serveEras(t, rejoin.EraBoth)
	p := start(t, "call", s.url, "job", "--cancel")
	s.task()
	s.progress(1)
	p.stderr.await(t, "progress 1 of 4")
	p.signal(os.Interrupt)
	require.ErrorIs(t, s.cancelled(), rejoin.ErrCancelled)
	require.Equal(t, 5, p.exit())
	require.NotContains(t, p.stderr.String(), "rejoin resume")
}

func TestARefusedPollOfATaskGivesTheToken(t *testing.T) {
	s := serveEras(t, rejoin.EraBoth)
	s.refuse(http.StatusUnauthorized)
	p := start(t, "call", s.url, "job")
	s.task()
	require.Equal(t, 3, p.exit())
	require.Contains(t, p.stderr.String(), "401 Unauthorized")
	_, token, _ := strings.Cut(p.stderr.lastLine(), "rejoin resume ")

	s.refuse(0)
	s.finish()
	p = start(t, "resume", token)
	require.Equal(t, 0, p.exit())
	require.Equal(t, "the job is done\n", p.stdout.String())
}

// A token that leads nowhere any more is not kept.
func TestATaskThatIsGoneLeavesNoToken(t *testing.T) {
	s := serveEras(t, rejoin.EraBoth)
	file := filepath.Join(t.TempDir(), "token")
	p := start(t, "call", s.url, "job", "--token-file", file)
	s.task()
	awaitFile(t, file)
	p.signal(os.Interrupt)
	require.Equal(t, 4, p.exit())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, token, _ := strings.Cut(string(text), "#")
	other := serveEras(t, rejoin.EraBoth) // as if the server had been restarted
	require.NoError(t, os.WriteFile(file, []byte(other.url+"#"+token), 0o600))
	p = start(t, "resume", "--token-file", file)
	require.Equal(t, 3, p.exit())
	require.Contains(t, p.stderr.String(), "the server no longer has the rest of this call")
	require.NotContains(t, p.stderr.String(), "rejoin resume")
	require.NoFileExists(t, file)
}

func TestTheTraceOfATask(t *testing.T) {
	s := serveEras(t, rejoin.EraBoth)
	open := s.hold()
	p := start(t, "call", s.url, "job", "--trace")
	s.task()
	p.stderr.await(t, " post stream=1 method=tasks/get")
	s.finish()
	open()
	require.Equal(t, 0, p.exit())
	trace := anonymous(p.stderr.String())
	require.Contains(t, trace, `trace +T session protocol=2026-07-28
trace +T post stream=1 method=tools/call
trace +T head stream=1 status=200
trace +T event stream=1 bytes=N
trace +T close stream=1
trace +T task stream=1 id=A state=working
trace +T wait stream=1 wait=T
trace +T post stream=1 method=tasks/get
trace +T head stream=1 status=200
trace +T event stream=1 bytes=N
trace +T close stream=1
trace +T task stream=1 id=A state=`)
	require.True(t, strings.HasSuffix(trace, " id=A state=completed\n"), trace)
}
