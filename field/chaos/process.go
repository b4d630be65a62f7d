//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is a child that serves, or did.
type process struct {
	name string
	addr string
	cmd  *exec.Cmd
	in   io.WriteCloser

	asking  sync.Mutex
	answers chan holdings // closed when it has ended
	ended   chan struct{} // closed when it has ended, and has been waited for
	state   *os.ProcessState
}

// startLimit is how long a process may take until it serves.
const startLimit = 20 * time.Second

// launch starts a process and returns when it serves. closes is called before a process that ends in order closes its port.
func launch(ctx context.Context, name, dir string, p plan, closes func()) (*process, error) {
	if os.Getenv(started) != "" {
		return nil, errors.New("a child must not start children: childMain was not called")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p.Oracle = filepath.Join(dir, name+suffix)
	text, err := json.Marshal(&p)
	if err != nil {
		return nil, err
	}
	output, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer output.Close()

	c := &process{name: name, addr: p.Addr, ended: make(chan struct{}), answers: make(chan holdings, 1)}
	c.cmd = exec.Command(self) //nolint:noctx // this program; its end is decided here
	c.cmd.Env = append(os.Environ(), started+"="+string(text), "GOMAXPROCS=2")
	c.cmd.Stderr, c.cmd.SysProcAttr = output, endsWithParent()
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begun := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel ends the child with the thread that has started it
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		begun <- err
		if err == nil {
			c.state, _ = c.cmd.Process.Wait()
			close(c.ended)
		}
	}()
	if err := <-begun; err != nil {
		return nil, err
	}
	go c.hear(out, closes)
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if _, err = c.read(ctx); err != nil {
		c.kill()
		return nil, fmt.Errorf("%s does not serve: %w; its log ends so:\n%s", name, err, tail(output.Name()))
	}
	return c, nil
}

// tail is the end of a file.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// ask asks what the process holds.
func (c *process) ask(ctx context.Context) (holdings, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if _, err := io.WriteString(c.in, "\"holdings\"\n"); err != nil {
		return holdings{}, err
	}
	return c.read(ctx)
}

// hear reads what the process says.
func (c *process) hear(out io.Reader, closes func()) {
	defer close(c.answers)
	for lines := json.NewDecoder(out); ; {
		var l line
		switch {
		case lines.Decode(&l) != nil:
			return
		case l.Closes:
			closes()
			if _, err := io.WriteString(c.in, "\"closed\"\n"); err != nil {
				return
			}
		default:
			c.answers <- l.Holds
		}
	}
}

// read waits for an answer. A process that has not answered in time must not be asked again.
func (c *process) read(ctx context.Context) (holdings, error) {
	select {
	case h, ok := <-c.answers:
		if !ok {
			return h, errors.New("it has ended")
		}
		return h, nil
	case <-ctx.Done():
		return holdings{}, context.Cause(ctx)
	}
}

func (c *process) signal(s syscall.Signal) error { return c.cmd.Process.Signal(s) }

func (c *process) isRunning() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// kill ends the process with SIGKILL, and waits for its end.
func (c *process) kill() {
	if c.isRunning() {
		_ = c.cmd.Process.Kill() // it may end by itself
		<-c.ended
	}
	_ = c.in.Close()
}
