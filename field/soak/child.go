package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// started is set in the environment of children. A child must not start children.
const started = "REJOIN_SOAK_STARTED"

// question is a line to a child's stdin; answer is the line that comes back.
type question struct {
	Do    string  `json:"do"`
	Job   job     `json:"job"`
	Sites []site  `json:"sites,omitempty"`
	Pace  float64 `json:"pace,omitempty"`
	File  string  `json:"file,omitempty"`
}

type answer struct {
	Error  string           `json:"error,omitempty"`
	Sites  []site           `json:"sites"`
	Sample sample           `json:"sample"`
	Gauges gauges           `json:"gauges"`
	Tally  map[string]int64 `json:"tally"`
	Faults []string         `json:"faults"`
	Active int64            `json:"active"` // clients that have not ended
}

// childMain must be the first call of main, and of TestMain in tests. If this process was started as a child, childMain does its work and ends it.
func childMain() {
	role := os.Getenv(started)
	if role == "" {
		return
	}
	var reply func(question) (answer, error)
	switch role {
	case "serve":
		runtime.MemProfileRate = profileRate //nolint:reassign // that is how it is set
		reply = new(serverProcess).reply
	case "load":
		reply = new(clientProcess).reply
	default:
		fmt.Fprintf(os.Stderr, "nobody does %q\n", role)
		os.Exit(2)
	}
	if err := converse(os.Stdin, os.Stdout, reply); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0) // stdin has ended
}

// converse answers questions until the input ends.
func converse(in io.Reader, out io.Writer, reply func(question) (answer, error)) error {
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q question
		if err := questions.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := reply(q)
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// child is this program, started again. It ends when its stdin is closed, so it does not outlive this process.
type child struct {
	role    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
}

func start(ctx context.Context, role string, stderr io.Writer) (*child, error) {
	if os.Getenv(started) != "" {
		return nil, errors.New("a child must not start children: childMain was not called")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{role: role, cmd: exec.CommandContext(ctx, self)}
	c.cmd.Env = append(os.Environ(), started+"="+role, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	c.cmd.Stderr = stderr
	c.cmd.WaitDelay = 5 * time.Second
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.answers = bufio.NewReader(out)
	return c, c.cmd.Start()
}

func (c *child) ask(q question) (answer, error) {
	var a answer
	if err := json.NewEncoder(c.in).Encode(q); err != nil {
		return a, fmt.Errorf("%s: %s: %w", c.role, q.Do, err)
	}
	line, err := c.answers.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return a, fmt.Errorf("%s: %s: %w", c.role, q.Do, err)
	}
	return a, nil
}

// end ends the child and waits for it.
func (c *child) end() error {
	_ = c.in.Close() // it may have ended already
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", c.role, err)
	}
	return nil
}
