package proc

import (
	"bufio"
	"encoding/json"
	"net"
	"sync"

	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// question is a line that is sent to the admin address of a process; answer is the line that it sends back.
type question struct {
	Do string `json:"do"` // "sample", "collect" or "gate"
}

type answer struct {
	Sample Sample `json:"sample"`
	Error  string `json:"error,omitempty"`
}

// admin answers questions about its process. It has a listener of its own, so the subject does not serve them.
type admin struct {
	gate   *subject.Gate
	engine *subject.Engine
	owner  *subject.Owner

	mu     sync.Mutex // one question at a time, so that the two counts are complete
	writes int64      // of the answers; they are subtracted from samples
	sent   int64
}

func (a *admin) serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go a.serveConn(c)
	}
}

func (a *admin) serveConn(c net.Conn) {
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
		s, err := sampleSelf(q.Do == "collect")
		if err != nil {
			reply.Error = err.Error()
		}
		s.Writes -= a.writes
		s.Sent -= a.sent
		s.Trips, s.Appends = a.engine.Calls()
		s.Accepted = a.owner.Accepted()
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
