package main_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

func TestCtrlCLeavesACallAndItsTokenGoesOn(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			s := serve(t)
			p := start(t, "call", s.url, "job")
			s.progress(1)
			p.stderr.await(t, "progress 1/4")
			p.signal(signal)
			require.Equal(t, 4, p.exit())
			require.Empty(t, p.stdout.String())
			require.Contains(t, p.stderr.String(), "the call goes on without us")
			command, token, _ := strings.Cut(p.stderr.lastLine(), " resume ")
			require.Equal(t, "rejoin", command, "the last line is the command to go on with")
			require.True(t, strings.HasPrefix(token, s.url+"#"), "one sees where it leads")

			s.progress(2) // while nobody is there
			p = start(t, "resume", token)
			p.stderr.await(t, "progress 2/4")
			s.progress(3)
			s.finish()
			require.Equal(t, 0, p.exit())
			require.Equal(t, "the job is done\n", p.stdout.String())
			require.Equal(t, "progress 2/4 (50%)\nprogress 3/4 (75%)\n", p.stderr.String(), "the rest, and no more")
		})
	}
}

func TestATokenIsTakenFromStdinAndGivenInJSON(t *testing.T) {
	s := serve(t)
	p := start(t, "call", s.url, "job", "--json")
	s.progress(1)
	p.stdout.await(t, `"progress":1`)
	p.signal(os.Interrupt)
	require.Equal(t, 4, p.exit())
	m := regexp.MustCompile(`^\{"type":"left","token":"(.*)"\}$`).FindStringSubmatch(p.stdout.lastLine())
	require.NotNil(t, m)

	s.finish()
	p = startWith(t, m[1]+"\n", "resume", "-")
	require.Equal(t, 0, p.exit())
	require.Equal(t, "the job is done\n", p.stdout.String())
}

// With a token there is something to leave from the first moment on, so this depends on no clock.
func TestATimeoutLeavesTheCall(t *testing.T) {
	s := serve(t)
	p := start(t, "call", s.url, "job")
	s.progress(1)
	p.stderr.await(t, "progress 1/4")
	p.signal(os.Interrupt)
	require.Equal(t, 4, p.exit())
	_, token, _ := strings.Cut(p.stderr.lastLine(), " resume ")

	p = start(t, "resume", token, "--timeout", "1ms")
	require.Equal(t, 4, p.exit())
	require.Contains(t, p.stderr.lastLine(), "rejoin resume "+s.url+"#")

	s.finish()
	p = start(t, "resume", token)
	require.Equal(t, 0, p.exit())
}

func TestWhatIsCancelledIsCancelledOnTheServer(t *testing.T) {
	for name, args := range map[string][]string{"on request": {"--cancel"}, "no event id": nil} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			p := start(t, append([]string{"call", s.url, "job", "--trace"}, args...)...)
			if args != nil {
				s.progress(1)
				p.stderr.await(t, "progress 1/4")
			} else {
				s.do(func(*rejoin.Handle) {}) // it runs, and no stream has been begun
			}
			p.signal(os.Interrupt)
			require.ErrorIs(t, s.cancelled(), rejoin.ErrCancelled)
			require.Equal(t, 5, p.exit())
			require.NotContains(t, p.stderr.String(), "rejoin resume")
			require.Zero(t, s.sessions(), "the session is ended")
		})
	}
}

// The program dies in a long call, and finds back with what it had written down.
func TestAKilledProgramGoesOnWithItsTokenFile(t *testing.T) {
	for name, stage := range map[string]func(s *server, p *process){
		"after a message": func(s *server, p *process) {
			s.progress(1)
			p.stderr.await(t, "progress 1/4")
		},
		"before any": func(s *server, _ *process) {
			s.do(func(h *rejoin.Handle) { require.NoError(t, h.CloseStream(time.Minute)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			file := filepath.Join(t.TempDir(), "token")
			p := start(t, "call", s.url, "job", "--token-file", file, "--trace")
			stage(s, p)
			awaitFile(t, file)
			p.kill(file)
			s.progress(2) // while it is dead
			p = resumeFrom(t, s, file)
			p.stderr.await(t, "progress 2/4")
			s.progress(3)
			s.finish()
			require.Equal(t, 0, p.exit())
			require.Equal(t, "the job is done\n", p.stdout.String())
			require.True(t, strings.HasSuffix(p.stderr.String(), "progress 2/4 (50%)\nprogress 3/4 (75%)\n"), "all the rest, in order")
			require.NotContains(t, p.stderr.String()[len("progress 1/4 (25%)\n"):], "progress 1/4", "the last message twice at most")
			requireNothingKept(t, file)
		})
	}
}

// kill kills the program, which has written a token file.
func (p *process) kill(file string) {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	require.Equal(p.t, -1, p.exit())
	info, err := os.Stat(file)
	require.NoError(p.t, err)
	require.Equal(p.t, os.FileMode(0o600), info.Mode().Perm(), "it is a secret")
}

// resumeFrom resumes with a token file, which another call does not overwrite.
func resumeFrom(t *testing.T, s *server, file string) *process {
	t.Helper()
	p := start(t, "call", s.url, "job", "--token-file", file)
	require.Equal(t, 2, p.exit(), "a token is not overwritten by another call")
	return start(t, "resume", "--token-file", file)
}

// requireNothingKept checks that a token file is gone.
func requireNothingKept(t *testing.T, file string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Empty(t, entries, "there is nothing left to come back for")
}

// What was being printed when the program died is printed again: the file is never ahead of stdout.
func TestAKillInTheMiddleOfAMessageLosesNothing(t *testing.T) {
	s := serve(t)
	file := filepath.Join(t.TempDir(), "token")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p := &process{t: t, cmd: exec.Command(binary, "call", s.url, "job", "--json", "--token-file", file), exited: make(chan struct{})}
	p.cmd.Stdout = w
	require.NoError(t, p.cmd.Start())
	require.NoError(t, w.Close())
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // it is killed
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	s.do(func(h *rejoin.Handle) { require.NoError(t, h.Progress(1, 4, strings.Repeat("long ", 1<<18))) }) // more than a pipe holds
	_, err = r.Read(make([]byte, 10))
	require.NoError(t, err, "it has begun to print")
	awaitFile(t, file)
	p.signal(syscall.SIGKILL)
	require.Equal(t, -1, p.exit())

	s.finish()
	p = start(t, "resume", "--json", "--token-file", file)
	require.Equal(t, 0, p.exit())
	require.Contains(t, p.stdout.String(), `"progress":1,`)
	require.Contains(t, p.stdout.String(), "the job is done")
}

// A refusal may be passing, such as that of an access token that has expired: there is something to come back for.
func TestARefusedPollGivesTheToken(t *testing.T) {
	s := serve(t)
	s.refuse(http.StatusUnauthorized)
	p := start(t, "call", s.url, "job")
	s.progress(1)
	s.do(func(h *rejoin.Handle) { require.NoError(t, h.CloseStream(time.Millisecond)) })
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
func TestWhatCannotBeResumedLeavesNoToken(t *testing.T) {
	s := serve(t)
	file := filepath.Join(t.TempDir(), "token")
	p := start(t, "call", s.url, "job", "--token-file", file)
	s.progress(1)
	p.stderr.await(t, "progress 1/4")
	p.signal(os.Interrupt)
	require.Equal(t, 4, p.exit())
	require.FileExists(t, file)
	for session := range s.Sessions() {
		require.NoError(t, s.EndSession(session.Ref))
	}
	p = start(t, "resume", "--token-file", file)
	require.Equal(t, 3, p.exit())
	require.Contains(t, p.stderr.String(), "the session has ended")
	require.NotContains(t, p.stderr.String(), "rejoin resume")
	require.NoFileExists(t, file)
}

// awaitFile waits until a file has been put in place; nothing tells when, so it looks again and again.
func awaitFile(t *testing.T, name string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			require.FailNow(t, "the token is never written")
		}
	}
}
