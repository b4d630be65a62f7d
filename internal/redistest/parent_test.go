//go:build redis && linux

package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server ends with its parent, although that is killed.
func TestAServerDiesWithItsParent(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	parent := exec.Command(exe)
	parent.Env = append(os.Environ(), parentEnv+"=1")
	parent.Stderr = t.Output()
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	addr, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
	defer os.RemoveAll(folder)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(limit)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server lives on")
}

// Go never ends the first thread of a program, so it is kept for the first goroutine: a test whose thread must end gets another one.
func init() { runtime.LockOSThread() } //nolint:gochecknoinits // later the first goroutine may be on another thread

// The thread on which Start was called may end: the server does not end with it.
func TestAServerOutlivesTheThreadThatCalledStart(t *testing.T) {
	type started struct {
		server *Server
		thread int
		err    error
	}
	begun := make(chan started)
	go func() {
		runtime.LockOSThread() // without an unlock: the thread ends with the goroutine
		s, err := Start(t.Context(), Options{})
		begun <- started{s, syscall.Gettid(), err}
	}()
	got := <-begun
	require.NoError(t, got.err)
	got.server.EndWith(t)
	require.Eventually(t, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", got.thread))
		return os.IsNotExist(err)
	}, limit, time.Millisecond, "the thread has not ended, so the test tests nothing")
	require.Equal(t, "PONG", do1(t, got.server, "PING"))
}
