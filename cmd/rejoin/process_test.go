package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The command runs as a process of its own, on real sockets and in real time: signals and death are what it is about. Tests wait
// for events, for as long as patience.
const patience = time.Minute

var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "rejoin")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "rejoin")
		build := []string{"build", "-buildvcs=false", "-o", binary}
		if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
			build = append(build, "-race")
		}
		if out, err := exec.Command("go", append(build, ".")...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// process is one run of the command.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	exited         chan struct{}
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startWith(t, "", args...)
}

func startWith(t *testing.T, stdin string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Stdin = strings.NewReader(stdin)
	return run(t, cmd)
}

func run(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, exited: make(chan struct{})}
	p.stdout.more, p.stderr.more = make(chan struct{}), make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // built with the race detector, it would wait a second before it ends
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // its code is looked at
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("%s\nstdout:\n%s\nstderr:\n%s", strings.Join(cmd.Args, " "), p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

// exit waits for the end and returns the code; -1 after a signal.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		require.FailNow(p.t, "the command does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// output is what a process writes.
type output struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{} // closed when there is
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.more)
	o.more = make(chan struct{})
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// await waits until the text is there.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		o.mu.Lock()
		more, there := o.more, strings.Contains(o.buf.String(), text)
		o.mu.Unlock()
		if there {
			return
		}
		select {
		case <-more:
		case <-deadline:
			require.FailNow(t, "the command never says "+text, "it says:\n%s", o)
		}
	}
}

// lastLine is the last whole line.
func (o *output) lastLine() string {
	lines := strings.Split(strings.TrimSuffix(o.String(), "\n"), "\n")
	return lines[len(lines)-1]
}
