package proc_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// The processes are this test binary, started again.
func TestMain(m *testing.M) {
	proc.Main(find)
	os.Exit(m.Run())
}

const answerBytes = 1 << 20

// find knows the subjects "plain", which answers with many bytes, and a DELETE only when the gate is open, and "broken", which fails to start.
func find(name string) (subject.Subject, bool) {
	switch name {
	case "plain":
		return subject.Subject{Name: name, New: func(o subject.Options) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					<-o.Gate.Done()
					return
				}
				w.Write(make([]byte, answerBytes))
			}), nil
		}}, true
	case "broken":
		return subject.Subject{Name: name, New: func(subject.Options) (http.Handler, error) { return nil, errors.New("it is broken") }}, true
	}
	return subject.Subject{}, false
}

// limited is a context that ends with the test. Its time limit is far beyond what a test takes.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestAServerIsSampled(t *testing.T) {
	s, err := proc.Start(limited(t), proc.Spec{Subject: "plain", CPU: 0})
	require.NoError(t, err)
	before, err := s.Sample(true)
	require.NoError(t, err)
	require.Positive(t, before.CPU)
	require.Positive(t, before.Heap)
	require.Positive(t, before.Objects)
	require.Positive(t, before.Stack)
	require.Greater(t, before.RSS, before.Heap)
	require.Positive(t, before.Goroutines)

	const calls = 5
	c, err := load.Dial(s.Addr)
	require.NoError(t, err)
	defer c.Close()
	for range calls {
		require.NoError(t, c.Accepted(load.Get("", "")))
	}
	ctl, err := proc.Connect(s.Admin) // as the loading process does
	require.NoError(t, err)
	defer ctl.Close()
	after, err := ctl.Sample(false)
	require.NoError(t, err)
	require.GreaterOrEqual(t, after.Sent-before.Sent, int64(calls*answerBytes))
	require.Less(t, after.Sent-before.Sent, int64(calls*answerBytes+calls*100_000))
	require.GreaterOrEqual(t, after.Writes-before.Writes, int64(calls))
	require.GreaterOrEqual(t, after.Bytes-before.Bytes, uint64(calls*answerBytes))
	require.GreaterOrEqual(t, after.Mallocs-before.Mallocs, uint64(calls))
	require.GreaterOrEqual(t, after.CPU, before.CPU)
	require.Greater(t, after.Goroutines, before.Goroutines, "the open connection's")
	require.NoError(t, s.Stop())
}

func TestSamplingIsNotInTheSample(t *testing.T) {
	s, err := proc.Start(limited(t), proc.Spec{Subject: "plain", CPU: proc.AnyCPU})
	require.NoError(t, err)
	before, err := s.Sample(false)
	require.NoError(t, err)
	const samples = 300
	for range samples {
		_, err = s.Sample(false)
		require.NoError(t, err)
	}
	after, err := s.Sample(false)
	require.NoError(t, err)
	require.Less(t, after.Writes-before.Writes, int64(samples/2), "some are the runtime's, to wake itself")
	require.Less(t, after.Sent-before.Sent, int64(samples*50))
	require.NoError(t, s.Stop())
}

func TestAServerIsKilled(t *testing.T) {
	s, err := proc.Start(limited(t), proc.Spec{Subject: "plain", CPU: proc.AnyCPU})
	require.NoError(t, err)
	require.NoError(t, s.Kill())
	_, err = load.Dial(s.Addr)
	require.Error(t, err)
}

func TestTheGateOpens(t *testing.T) {
	s, err := proc.Start(limited(t), proc.Spec{Subject: "plain", CPU: proc.AnyCPU})
	require.NoError(t, err)
	c, err := load.Dial(s.Addr)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Send(load.Delete("s")))
	require.NoError(t, s.OpenGate())
	h, err := c.Head()
	require.NoError(t, err)
	require.Equal(t, 200, h.Status)
	require.NoError(t, s.Stop())
}

func TestAServerThatDoesNotBeginSaysWhy(t *testing.T) {
	_, err := proc.Start(limited(t), proc.Spec{Subject: "broken", CPU: proc.AnyCPU})
	require.ErrorContains(t, err, "it is broken")
	_, err = proc.Start(limited(t), proc.Spec{Subject: "nobody", CPU: proc.AnyCPU})
	require.ErrorContains(t, err, `no subject is named "nobody"`)
}

func TestAServerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(limited(t))
	s, err := proc.Start(ctx, proc.Spec{Subject: "plain", CPU: proc.AnyCPU})
	require.NoError(t, err)
	cancel()
	_, err = s.Control.Sample(false)
	for err == nil { // until the process has ended
		_, err = s.Control.Sample(false)
	}
	require.Error(t, s.Stop())
}

// When a process is killed, its pipes are closed, and so the processes end that it has started.
func TestAServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(limited(t), self, "serve", "-subject", "plain")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var at struct{ Addr, Admin string }
	out := json.NewDecoder(stdout)
	require.NoError(t, out.Decode(&at))
	require.NotEmpty(t, at.Addr)
	require.NoError(t, stdin.Close())
	_, err = io.Copy(io.Discard, stdout)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
}

type (
	cpuJob   struct{ Text string }
	cpuFound struct {
		Text        string
		CPUs, Procs int
	}
	failingJob struct{}
	endlessJob struct{}
	unknownJob struct{}
)

var (
	_ = proc.Work(func(_ context.Context, j cpuJob) (cpuFound, error) {
		return cpuFound{j.Text, runtime.NumCPU(), runtime.GOMAXPROCS(0)}, nil
	})
	_ = proc.Work(func(context.Context, failingJob) (int, error) { return 0, errors.New("it failed") })
	_ = proc.Work(func(ctx context.Context, _ endlessJob) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
)

func TestAJobRunsOnItsCPU(t *testing.T) {
	for cpu := range 3 { // the numbers wrap
		var found cpuFound
		require.NoError(t, proc.Load(limited(t), cpu, cpuJob{"hello"}, &found))
		require.Equal(t, cpuFound{"hello", 1, 1}, found)
	}
	var found cpuFound
	require.NoError(t, proc.Load(limited(t), proc.AnyCPU, cpuJob{}, &found))
	require.Equal(t, runtime.NumCPU(), found.CPUs, "this process may still run everywhere")
}

func TestAJobThatFailsSaysWhy(t *testing.T) {
	var n int
	require.ErrorContains(t, proc.Load(limited(t), proc.AnyCPU, failingJob{}, &n), "it failed")
	require.ErrorContains(t, proc.Load(limited(t), proc.AnyCPU, unknownJob{}, &n), `nobody does "proc_test.unknownJob"`)
}

func TestAJobEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(limited(t))
	done := make(chan error, 1)
	go func() {
		var n int
		done <- proc.Load(ctx, proc.AnyCPU, endlessJob{}, &n)
	}()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestAJobEndsWithTheProcessThatStartedIt(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(limited(t), self, "load")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(stdin, `{"Work":"proc_test.endlessJob","Job":{}}`)
	require.NoError(t, err)
	require.NoError(t, stdin.Close())
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 1, exit.ExitCode(), "it ended by itself")
}

func TestAStartedProcessStartsNone(t *testing.T) {
	t.Setenv("BENCH_STARTED", "yes")
	_, err := proc.Start(limited(t), proc.Spec{Subject: "plain", CPU: proc.AnyCPU})
	require.ErrorContains(t, err, "proc.Main")
	require.ErrorContains(t, proc.Load(limited(t), proc.AnyCPU, cpuJob{}, nil), "proc.Main")
}
