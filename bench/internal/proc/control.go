package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Control is a connection to the admin address of a serving process. Several goroutines may use it.
type Control struct {
	mu    sync.Mutex
	conn  net.Conn
	lines *bufio.Reader
}

// Connect connects to Server.Admin of a serving process, for a process that did not start it, such as the load.
func Connect(admin string) (*Control, error) {
	conn, err := net.Dial("tcp", admin)
	if err != nil {
		return nil, err
	}
	return &Control{conn: conn, lines: bufio.NewReader(conn)}, nil
}

// Close ends the connection, not the process.
func (c *Control) Close() error { return c.conn.Close() }

// Sample returns what the process has used, and what it holds. With gc it first collects garbage and returns free memory to the system. The
// costs of that are in the sample, so a sample that ends a measurement is taken without gc.
func (c *Control) Sample(gc bool) (Sample, error) {
	if gc {
		return c.ask("collect")
	}
	return c.ask("sample")
}

// SampleBefore collects garbage and then samples. The costs of the collection are in this sample, so they are not in the difference to a
// later one.
func (c *Control) SampleBefore() (Sample, error) {
	if _, err := c.Sample(true); err != nil {
		return Sample{}, err
	}
	return c.Sample(false)
}

// OpenGate opens the process's Gate: all calls of the tool "hold" end.
func (c *Control) OpenGate() error {
	_, err := c.ask("gate")
	return err
}

func (c *Control) ask(do string) (Sample, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, err := json.Marshal(question{Do: do})
	if err != nil {
		return Sample{}, err
	}
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		return Sample{}, fmt.Errorf("%s: %w", do, err)
	}
	line, err = c.lines.ReadBytes('\n')
	if err != nil {
		return Sample{}, fmt.Errorf("%s: %w", do, err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return Sample{}, fmt.Errorf("%s: %w", do, err)
	}
	if a.Error != "" {
		return Sample{}, errors.New(do + ": " + a.Error)
	}
	return a.Sample, nil
}
