package proc

import (
	"bufio"
	"encoding/json"
	"net"
	"sync"

	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// question is a line to the admin side, answer is what comes back.
type question struct {
	Do string `json:"do"` // "sample", "collect" or "gate"
}

type answer struct {
	Sample Sample `json:"sample"`
	Error  string `json:"error,omitempty"`
}

// admin answers questions about its process, on a listener of its own so that the subject sees nothing of them.
type admin struct {
	gate *subject.Gate

	mu     sync.Mutex // one at a time, so that the figures below are complete
	writes int64      // its own, which are no part of a sample
	sent   int64
}

func (a *admin) serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go a.converse(c)
	}
}

func (a *admin) converse(c net.Conn) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		var q question
		var reply answer
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			reply.Error = err.Error()
		}
		if !a.reply(c, q, reply) {
			return
		}
	}
}

func (a *admin) reply(c net.Conn, q question, reply answer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch q.Do {
	case "gate":
		a.gate.Open()
	case "sample", "collect":
		s, err := take(q.Do == "collect")
		if err != nil {
			reply.Error = err.Error()
		}
		s.Writes -= a.writes
		s.Sent -= a.sent
		reply.Sample = s
	default:
		reply.Error = "no such question: " + q.Do
	}
	line, err := json.Marshal(reply)
	if err != nil {
		return false
	}
	n, err := c.Write(append(line, '\n'))
	a.writes++
	a.sent += int64(n)
	return err == nil
}
