package rawhttp

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// disconnect breaks or closes all connections and ends the sessions. Then it checks that nothing is left. baseline is the number of goroutines
// before the script.
func (p *play) disconnect(baseline int) {
	for i, c := range p.conns {
		_ = c.Close() // it never fails
		if i%2 == 0 {
			c.Reset()
		}
	}
	<-time.After(40 * time.Second) // net/http may not see that a client has gone, but a comment then fails
	synctest.Wait()
	p.checkNewSession()
	p.subject.EndSessions()
	<-time.After(time.Second)
	synctest.Wait()
	p.mu.Lock()
	for _, state := range p.states {
		if state != http.StateClosed {
			p.asyncFaults = append(p.asyncFaults, fmt.Sprintf("a connection is left, in state %v", state))
		}
	}
	p.faults = append(p.faults, p.asyncFaults...)
	p.mu.Unlock()
	for _, c := range p.conns {
		for _, r := range c.requests {
			if !r.done {
				p.failf("a handler of %s has not returned", r.method)
			}
		}
	}
	if left := p.subject.Left(); left != "" {
		p.failf("left: %s", left)
	}
	if now := goroutines(); len(now) > baseline {
		p.failf("%d goroutines, and at rest there are %d:\n%s", len(now), baseline, strings.Join(now, "\n\n"))
	}
	for _, line := range p.subject.Logged.lines() {
		for _, word := range []string{"panic", "superfluous", "wrote more than", "goroutine "} {
			if strings.Contains(line, word) {
				p.failf("logged: %s", line)
			}
		}
	}
}

// checkNewSession checks that a new client can still open a session.
func (p *play) checkNewSession() {
	c := p.dial()
	p.sendScript(c, Post("", Initialize("2025-11-25"), "Connection", "close"))
	<-time.After(time.Second)
	synctest.Wait()
	got, over := c.Unread()
	if !over || !bytes.HasPrefix(got, []byte("HTTP/1.1 200 OK\r\n")) || !bytes.Contains(got, []byte(`"result":`)) {
		p.failf("afterwards no session can be opened: %q", got)
	}
	_ = c.CloseWrite() // it never fails
}

// goroutines returns the stacks of all goroutines of this bubble, when all are blocked.
func goroutines() []string {
	synctest.Wait()
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	_, rest, _ := strings.Cut(all[0], "synctest bubble ") // the first is the current one
	number, _, _ := strings.Cut(rest, "]")
	return slices.DeleteFunc(all, func(stack string) bool {
		head, _, _ := strings.Cut(stack, "\n")
		return !strings.Contains(head, "synctest bubble "+number+"]")
	})
}

// Log keeps all lines that are written to it. It is safe for concurrent use.
type Log struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(line)
}

// Logger returns a logger that writes to the log.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *Log) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(l.all.String(), "\n")
}
