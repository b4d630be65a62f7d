//go:build redis && linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/redistest"
)

// These tests use real sockets, processes and the real clock, because that is what the command promises.

// patience is how long a test waits for what must happen.
const patience = time.Minute

// command is the command in a process group of its own, so that the test sees what it leaves behind.
type command struct {
	*exec.Cmd

	out    *bufio.Scanner
	stderr bytes.Buffer
}

func start(t *testing.T, args ...string) *command {
	t.Helper()
	program := filepath.Join(t.TempDir(), "cluster")
	text, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(text))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c := &command{Cmd: exec.CommandContext(ctx, program, args...)}
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // the folder of an engine whose parent was killed stays there
	c.SysProcAttr, c.Stderr = &syscall.SysProcAttr{Setpgid: true}, &c.stderr
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // what it has left behind, too
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewScanner(out)
	require.NoError(t, c.Start())
	return c
}

// until reads what the command prints until a line has a text.
func (c *command) until(t *testing.T, text string) {
	t.Helper()
	for c.out.Scan() {
		if strings.Contains(c.out.Text(), text) {
			return
		}
	}
	t.Fatalf("it has ended before it printed %q; stderr: %s", text, &c.stderr)
}

// all reads the rest, and waits for the end.
func (c *command) all() (text string, err error) {
	var all strings.Builder
	for c.out.Scan() {
		fmt.Fprintln(&all, c.out.Text())
	}
	return all.String(), c.Wait()
}

// processes are those of the command that still run, itself included.
func (c *command) processes(t *testing.T) (names []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		name, rest, _ := strings.Cut(string(text), ") ")
		var state string
		var parent, group int
		_, err = fmt.Sscan(rest, &state, &parent, &group)
		require.NoError(t, err)
		if group == c.Process.Pid && state != "Z" {
			names = append(names, name)
		}
	}
	return names
}

func TestTheDemo(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := start(t)
	c.until(t, "C is process")
	require.Len(t, c.processes(t), 5, "the command, its engine and three processes")
	text, err := c.all()
	require.NoError(t, err, "%s\n%s", text, &c.stderr)
	require.Less(t, time.Since(began), 40*time.Second)
	require.Empty(t, c.stderr.String())
	require.Empty(t, c.processes(t))
	for _, pattern := range []string{
		`opens the session, and owns it`, `(?m)GET, .*\n.* 200 text/event-stream +[ABC] → [ABC]$`, `result: 6 steps done`,
		`kill -9 [ABC]`, `adopts the session`, `error owner_lost, \d\.\d s after the kill`, `result: the door code is 4711`, `result: 3 steps done`,
		`SIGTERM to [ABC]`, `result: 8 steps done`, `[ABC] has ended in good order`, `Two owners have ended, and the session has not\.`,
	} {
		at := regexp.MustCompile(pattern).FindStringIndex(text)
		require.NotNil(t, at, "%s comes in this order, not in:\n%s", pattern, text)
		text = text[at[1]:]
	}
}

// An interrupt ends it and its processes, but not the engine that it was given.
func TestAnInterrupt(t *testing.T) {
	t.Parallel()
	engine := redistest.New(t, redistest.Options{})
	c := start(t, "-redis", engine.Addr())
	c.until(t, "kill -9")
	require.NoError(t, c.Process.Signal(os.Interrupt))
	_, err := c.all()
	require.Error(t, err)
	require.Equal(t, 1, c.ProcessState.ExitCode(), c.stderr.String())
	require.Empty(t, c.processes(t))
	answer, err := engine.Do(t.Context(), "PING")
	require.NoError(t, err)
	require.Equal(t, "PONG", answer)
}

// Also if it is killed, all that it has started ends.
func TestAKilledDemo(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.until(t, "adopts")
	require.NoError(t, c.Process.Kill())
	_, err := c.all()
	require.Error(t, err)
	require.Eventually(t, func() bool { return len(c.processes(t)) == 0 }, patience, 10*time.Millisecond)
}

func TestWhatIsMissing(t *testing.T) {
	c := start(t, "-redis", "127.0.0.1:1")
	_, err := c.all()
	require.Error(t, err)
	require.Contains(t, c.stderr.String(), "connect: connection refused")
	require.Empty(t, c.processes(t))

	t.Setenv("PATH", t.TempDir())
	var stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), nil, io.Discard, &stderr))
	require.Regexp(t, "apt-get install redis-server; or say with -redis", stderr.String())
	require.Equal(t, 2, run(t.Context(), []string{"what"}, io.Discard, &stderr))
	require.Zero(t, run(t.Context(), []string{"-h"}, io.Discard, &stderr))
}
