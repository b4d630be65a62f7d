package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"
)

// child is one of the three processes.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   tail
	ended chan struct{} // closed when it has ended
}

// startChild starts a process of this program. It ends with this one.
func startChild(name, redis, report string, lease time.Duration) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{name: name, ended: make(chan struct{})}
	c.cmd = exec.Command(program, "-serve", name, "-redis", redis, "-report", report, "-lease", lease.String())
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.cmd.Wait() // its state has it too
		close(c.ended)
	}()
	return c, nil
}

// signal sends a signal to the process.
func (c *child) signal(s os.Signal) error {
	if err := c.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("process %s: %w", c.name, err)
	}
	return nil
}

// wait waits until the process has ended, and returns an error if it failed.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.ended:
	case <-ctx.Done():
		return fmt.Errorf("process %s has not ended: %w", c.name, context.Cause(ctx))
	}
	if !c.cmd.ProcessState.Success() {
		return c.failure()
	}
	return nil
}

// failure says that the process has ended.
func (c *child) failure() error {
	return fmt.Errorf("process %s has ended: %v; its log:\n%s", c.name, c.cmd.ProcessState, c.log.String())
}

// answers waits until the process serves.
func (c *child) answers(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/ready", nil)
	if err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			err = res.Body.Close()
		}
		answered <- err
	}()
	select {
	case err = <-answered:
		if err == nil {
			return nil
		}
	case <-c.ended:
		return c.failure()
	}
	select {
	case <-c.ended: // so its port was closed
		return c.failure()
	case <-ctx.Done():
		return err
	}
}

// kill ends the process at once, and waits until it has ended.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
	_ = c.stdin.Close() // the same
}

// tail keeps the end of what a process prints.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (l *tail) Write(p []byte) (int, error) {
	const kept = 4 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-kept):]
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.text))
}
