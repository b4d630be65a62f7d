//go:build redis && unix

package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These tests need real processes and sockets; they wait for events of them, with deadlines.

func do1(t *testing.T, s *Server, args ...string) string {
	t.Helper()
	got, err := s.Do(t.Context(), args...)
	require.NoError(t, err)
	return got
}

func TestAServerAnswersAndIsRestartedOnTheSamePort(t *testing.T) {
	s := New(t, Options{})
	addr, pid := s.Addr(), s.Pid()
	require.Equal(t, "OK", do1(t, s, "SET", "key", "a value\r\nof two lines"))
	require.Equal(t, "a value\r\nof two lines", do1(t, s, "GET", "key"))
	require.Empty(t, do1(t, s, "GET", "another"))
	require.Equal(t, "1", do1(t, s, "DBSIZE"))
	require.Equal(t, "save\n", do1(t, s, "CONFIG", "GET", "save"), "nothing is kept on disk")
	require.Equal(t, "appendonly\nno", do1(t, s, "CONFIG", "GET", "appendonly"))
	_, err := s.Do(t.Context(), "INCR", "key")
	require.Equal(t, Error("ERR value is not an integer or out of range"), err)

	require.ErrorContains(t, s.Restart(t.Context()), "runs already")
	require.NoError(t, s.Kill())
	require.NoError(t, s.Kill(), "it has ended before")
	require.ErrorContains(t, s.Pause(), "has ended")
	_, err = s.Do(t.Context(), "PING")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, addr, s.Addr())
	require.NotEqual(t, pid, s.Pid())
	require.Empty(t, do1(t, s, "GET", "key"), "nothing was kept")

	require.NoError(t, s.Stop())
	require.NoError(t, s.Restart(t.Context()))
	require.NoError(t, s.Close())
	require.NoDirExists(t, s.Folder())
	require.NoError(t, s.Close())
}

func TestArgumentsChangeTheConfiguration(t *testing.T) {
	s := New(t, Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	do1(t, s, "SET", "key", "value")
	require.NoError(t, s.Kill())
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, "value", do1(t, s, "GET", "key"))
}

func TestAPausedServerAcceptsConnectionsAndAnswersLater(t *testing.T) {
	s := New(t, Options{})
	require.NoError(t, s.Pause())
	conn, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "PING\r\n")
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, s.Resume())
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(limit)))
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", line)

	require.NoError(t, s.Pause())
	require.NoError(t, s.Stop(), "a paused server goes on, to end")
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	_, err := Start(t.Context(), Options{Program: "no-such-server"})
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "apt-get install no-such-server")

	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	_, err = Start(t.Context(), Options{Args: []string{"--maxmemory", "a lot"}})
	require.ErrorContains(t, err, "exit status 1")
	require.ErrorContains(t, err, "argument must be a memory value", "the end of its log")
	requireEmpty(t, folder)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Start(ctx, Options{})
	require.ErrorIs(t, err, context.Canceled)
}

// requireEmpty checks that the folders of servers, which were made in a folder, are removed.
func requireEmpty(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A restart sees that another process has the port by now, even if that one answers.
func TestARestartIsNotAnsweredByAnotherProcess(t *testing.T) {
	s := New(t, Options{})
	require.NoError(t, s.Kill())
	lis, err := net.Listen("tcp", s.Addr())
	require.NoError(t, err)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "+PONG\r\n") // the caller sees what it gets
			conn.Close()
		}
	}()
	require.ErrorContains(t, s.Restart(t.Context()), "Address already in use")
	require.NoError(t, lis.Close())
	<-answered
	require.NoError(t, s.Restart(t.Context()))
}

func TestAnAnswerThatDoesNotComeEndsWithTheContext(t *testing.T) {
	s := New(t, Options{})
	require.NoError(t, s.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Do(ctx, "PING")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// What readReply refuses: the server under test never sends it.
func TestReplies(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "EOF",
		"\r\n":                      `not a reply: ""`,
		"+PONG\n":                   `not a reply`,
		"PONG\r\n":                  `not a reply`,
		"$x\r\n":                    `not a reply`,
		"%1\r\n":                    `not a reply`,
		"$5\r\nabc":                 "unexpected EOF",
		"*2\r\n:1\r\n":              "EOF",
		"-ERR no\r\n":               "ERR no",
		"*2\r\n-ERR no\r\n:1\r\n":   "",
		"*1\r\n*2\r\n+a\r\n$-1\r\n": "",
	} {
		_, err := readReply(bufio.NewReader(strings.NewReader(text)))
		if want == "" {
			require.NoError(t, err, "%q", text)
		} else {
			require.ErrorContains(t, err, want, "%q", text)
		}
	}
	got, err := readReply(bufio.NewReader(strings.NewReader("*3\r\n-ERR no\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n")))
	require.NoError(t, err)
	require.Equal(t, "ERR no\n1\na\n", got)
	require.Equal(t, "x", fmt.Sprint(Error("x")))
}
