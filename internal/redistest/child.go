//go:build unix

package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// child is one process. Its nil is a process that has ended.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended, and has been waited for
}

// launch starts a process that appends its output to a file.
func launch(program string, args []string, output string) (*child, error) {
	out, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()                     // the process has its own
	cmd := exec.Command(program, args...) // its end is that of the Server, not of a context
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, out, endsWithParent()
	c := &child{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel ends the child when this thread ends, so the thread must wait as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the state has it, too
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) running() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// await waits until done returns nil, for as long as the process lives. Its error has the last one of done that was not due to the context.
func (c *child) await(ctx context.Context, done func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := done()
		if err == nil {
			return nil
		} else if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-c.ended:
			return fmt.Errorf("the process has ended: %v", c.cmd.ProcessState)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		}
	}
}

func (c *child) signal(sig syscall.Signal) error {
	if !c.running() {
		return errors.New("redistest: the process has ended")
	}
	return c.cmd.Process.Signal(sig)
}

func (c *child) kill() error {
	if !c.running() {
		return nil
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.ended
	return nil
}

func (c *child) stop() error {
	if err := errors.Join(c.signal(syscall.SIGTERM), c.signal(syscall.SIGCONT)); err != nil && c.running() {
		return err
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-c.ended:
	case <-limit.C:
		return errors.Join(fmt.Errorf("runs %v after SIGTERM", stopLimit), c.kill())
	}
	if !c.cmd.ProcessState.Success() {
		return fmt.Errorf("after SIGTERM: %v", c.cmd.ProcessState)
	}
	return nil
}
