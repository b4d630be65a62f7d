package rawhttp

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// leave breaks all connections and ends the sessions; then nothing may be left.
func (p *play) leave(resting int) {
	for i, c := range p.conns {
		c.update(func() { // some are broken, some are closed
			c.fin, c.gone, c.frozen = true, true, false
			c.conn.cut = c.conn.cut || i%2 == 0
		})
	}
	<-time.After(40 * time.Second) // what net/http does not see, because more was sent, is seen when a comment cannot be written
	synctest.Wait()
	p.alive()
	p.subject.EndSessions()
	<-time.After(time.Second)
	synctest.Wait()
	p.mu.Lock()
	for _, state := range p.states {
		if state != http.StateClosed {
			p.ended = append(p.ended, fmt.Sprintf("a connection is left, in state %v", state))
		}
	}
	p.faults = append(p.faults, p.ended...)
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
	if now := goroutines(); len(now) > resting {
		p.failf("%d goroutines, and at rest there are %d:\n%s", len(now), resting, strings.Join(now, "\n\n"))
	}
	for _, line := range p.subject.Logged.lines() {
		for _, word := range []string{"panic", "superfluous", "wrote more than", "goroutine "} {
			if strings.Contains(line, word) {
				p.failf("logged: %s", line)
			}
		}
	}
}

// alive opens a session as if nothing had been.
func (p *play) alive() {
	c := p.dial()
	p.say(c, Post("", Initialize("2025-11-25"), "Connection", "close"))
	<-time.After(time.Second)
	synctest.Wait()
	got, over := c.got()
	if !over || !bytes.HasPrefix(got, []byte("HTTP/1.1 200 OK\r\n")) || !bytes.Contains(got, []byte(`"result":`)) {
		p.failf("afterwards nobody can open a session: %q", got)
	}
	c.update(func() { c.fin = true })
}

// goroutines are the stacks of what runs in this bubble, once all of it has come to rest.
func goroutines() []string {
	synctest.Wait()
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	_, rest, _ := strings.Cut(all[0], "synctest bubble ") // the first is the one that asks
	number, _, _ := strings.Cut(rest, "]")
	return slices.DeleteFunc(all, func(stack string) bool {
		head, _, _ := strings.Cut(stack, "\n")
		return !strings.Contains(head, "synctest bubble "+number+"]")
	})
}

// Log keeps what is logged.
type Log struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(line)
}

func (l *Log) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(l.all.String(), "\n")
}
