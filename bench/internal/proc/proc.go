package proc

import (
	"bytes"
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

// Server is a subject in a process of its own.
type Server struct {
	Addr  string // "127.0.0.1:port", where it serves MCP
	Admin string // for Connect
	*Control
	child *child
}

// Start starts a serving process and waits until it serves. It ends with Stop, with ctx, or with this process.
func Start(ctx context.Context, s Spec) (*Server, error) {
	child, err := begin(ctx, s.CPU, "serve", "-subject", s.Subject, "-store-bytes", strconv.FormatInt(s.StoreBytes, 10))
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
	return &Server{Addr: at.Addr, Admin: at.Admin, Control: control, child: child}, nil
}

// Stop ends the process. The error tells if it had ended by itself, and what it said then.
func (s *Server) Stop() error {
	s.Control.Close()
	return s.child.end(nil)
}

// Said is what the process has written to its stderr lately.
func (s *Server) Said() string { return s.child.stderr.String() }

// Work registers what a loading process does with jobs of the type J. Both J and O travel as JSON.
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

// Load runs a job in a process of its own, on the CPU or AnyCPU, and reads its outcome, a pointer. What is done is registered with Work for
// the job's type. It ends early with ctx or with this process.
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

// child is this program, started again.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser // the child ends when this does, so that it does not outlive us
	stdout io.Reader
	stderr tail
}

// started marks a process as one of those. Should it not call Main, it would otherwise run the tests or scenarios that started it, and
// start itself again, and again.
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
	// Where the race detector is built in, it would let every process wait a second before it ends.
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

// end lets the process end, waits for that, and adds what it said if it did not end well.
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

// tail keeps the last that was written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4096

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

// String is what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
