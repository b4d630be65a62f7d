package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Control asks a serving process about itself.
type Control struct {
	mu    sync.Mutex
	conn  net.Conn
	lines *bufio.Reader
}

// Connect lets another process than the starting one, as the load is, ask a serving process: Server.Admin is the address.
func Connect(admin string) (*Control, error) {
	conn, err := net.Dial("tcp", admin)
	if err != nil {
		return nil, err
	}
	return &Control{conn: conn, lines: bufio.NewReader(conn)}, nil
}

// Close ends the connection, not the process.
func (c *Control) Close() error { return c.conn.Close() }

// Sample says what the process has used and holds. With gc it collects garbage first, and gives free memory back; the costs of that are in
// the sample, so what comes before a load may be taken with gc, and what comes after it should first be taken without.
func (c *Control) Sample(gc bool) (Sample, error) {
	if gc {
		return c.ask("collect")
	}
	return c.ask("sample")
}

// OpenGate lets the calls of the tool "hold" end.
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
