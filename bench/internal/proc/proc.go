package proc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"sync"
	"time"
)

// Server is a process that serves a subject.
type Server struct {
	Addr  string // "127.0.0.1:port", where it serves MCP
	Owner string // where sessions are opened, if it forwards; else ""
	Admin string // for Connect
	*Control
	child *child
}

// Start starts a serving process and waits until it serves. The process ends with Stop, with ctx, or with the calling process.
func Start(ctx context.Context, s Spec) (*Server, error) {
	child, err := begin(ctx, s.CPU, "serve", "-subject", s.Subject, "-store-bytes", strconv.FormatInt(s.StoreBytes, 10), "-redis", s.Redis, "-lease", s.Lease.String())
	if err != nil {
		return nil, err
	}
	var at addresses
	if err := json.NewDecoder(child.stdout).Decode(&at); err != nil {
		return nil, fmt.Errorf("server %s did not begin: %w", s.Subject, child.failed(err))
	}
	control, err := Connect(at.Admin)
	if err != nil {
		return nil, child.failed(err)
	}
	return &Server{Addr: at.Addr, Owner: at.Owner, Admin: at.Admin, Control: control, child: child}, nil
}

// Stop ends the process. If it had failed before, the error has what it wrote to stderr.
func (s *Server) Stop() error {
	s.Control.Close()
	return s.child.end(nil)
}

// Kill ends the process as a crash does, with SIGKILL, and waits until it has ended.
func (s *Server) Kill() error {
	s.Control.Close()
	if err := s.child.cmd.Process.Kill(); err != nil {
		return s.child.failed(err)
	}
	s.child.stdin.Close()
	if err := s.child.cmd.Wait(); s.child.cmd.ProcessState.Exited() { // it had ended before, by itself
		return fmt.Errorf("%s: %w: %s", s.child.cmd.Args[1], cmp.Or(err, errEnded), s.child.stderr.String())
	}
	return nil
}

var errEnded = errors.New("it has ended by itself")

// Stderr returns the last that the process has written to stderr, at most 4 KiB.
func (s *Server) Stderr() string { return s.child.stderr.String() }

// Work registers what a loading process does with jobs of the type J. J and O are sent as JSON.
//
//	var _ = proc.Work(func(ctx context.Context, job burstJob) (burstOutcome, error) { … })
func Work[J, O any](do func(context.Context, J) (O, error)) struct{} {
	workers[reflect.TypeFor[J]().String()] = func(ctx context.Context, raw json.RawMessage) (any, error) {
		var job J
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, err
		}
		return do(ctx, job)
	}
	return struct{}{}
}

// Load runs a job in a process of its own, on the CPU or AnyCPU, and stores its result in outcome, a pointer. The function for the job's type
// is registered with Work. The process ends early with ctx or with the calling process.
func Load(ctx context.Context, cpu int, job, outcome any) error {
	raw, err := json.Marshal(job)
	if err != nil {
		return err
	}
	child, err := begin(ctx, cpu, "load")
	if err != nil {
		return err
	}
	if err := json.NewEncoder(child.stdin).Encode(task{reflect.TypeOf(job).String(), raw}); err != nil {
		return child.failed(err)
	}
	answer, err := io.ReadAll(child.stdout)
	if err != nil {
		return child.failed(err)
	}
	if err := child.end(ctx.Err()); err != nil {
		return err
	}
	return json.Unmarshal(answer, outcome)
}

// child is this program, started again as another process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser // the child ends when this is closed, so it does not outlive its parent
	stdout io.Reader
	stderr tail
}

// started is set in the environment of children. A child that does not call Main would run the tests or scenarios that started it, which
// would start children again.
const started = "BENCH_STARTED"

func begin(ctx context.Context, cpu int, args ...string) (*child, error) {
	if os.Getenv(started) != "" {
		return nil, errors.New("a process that was started to serve or to load must call proc.Main first")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, args...)}
	c.cmd.Stderr = &c.stderr
	c.cmd.WaitDelay = 5 * time.Second
	// With the race detector every process would wait for a second before it ends.
	c.cmd.Env = append(os.Environ(), started+"=yes", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if cpu != AnyCPU {
		c.cmd.Env = append(c.cmd.Env, "GOMAXPROCS=1")
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.stdout, err = c.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := pinned(cpu, c.cmd.Start); err != nil {
		return nil, err
	}
	return c, nil
}

// end ends the process and waits for it. If the process failed, the error has what it wrote to stderr.
func (c *child) end(err error) error {
	c.stdin.Close()
	if failure := c.cmd.Wait(); err == nil {
		err = failure
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", c.cmd.Args[1], err, c.stderr.String())
	}
	return nil
}

// failed ends the process because of err.
func (c *child) failed(err error) error {
	return c.end(err)
}

// tail keeps the last tailBytes that were written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4096

// Write implements io.Writer. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
