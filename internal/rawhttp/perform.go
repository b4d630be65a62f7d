package rawhttp

import (
	"regexp"
	"slices"
	"strings"
	"testing/synctest"
	"time"
)

// perform runs the script.
func (p *play) perform() {
	p.dial()
	done := 0
	for _, token := range parse(p.script) {
		c := p.conns[p.current]
		switch {
		case token.name == "":
			c.pending.add(token.text)
		case values[token.name]:
			p.value(c, token.name)
		default:
			if done++; done <= maxActions {
				p.action(c, token.name)
			}
		}
	}
	for _, c := range p.conns {
		c.send(c.pending.flush())
	}
	synctest.Wait()
	<-time.After(200 * time.Millisecond)
	synctest.Wait()
}

func (c *client) send(raw []byte) {
	if _, err := c.Write(raw); err == nil { // else the script has cut or ended it, or the server has closed it
		c.sent.Write(raw)
	}
}

// value adds the value that a name stands for.
func (p *play) value(c *client, name string) {
	switch name {
	case "length":
		if c.pending.lengthAt < 0 {
			c.pending.lengthAt = len(c.pending.text)
		}
	case "fill":
		c.pending.add(strings.Repeat("x", 5000))
	case "session":
		if p.session == "" || p.newest(sessionField) != p.batches {
			p.session = p.newest(sessionField)
		}
		if p.session == "" {
			p.session = p.openSession("2025-11-25")
		}
		c.pending.add(p.session)
	case "batches":
		if p.batches == "" {
			p.batches = p.openSession("2025-03-26")
		}
		c.pending.add(p.batches)
	case "cursor":
		c.pending.add(p.newest(idLine))
	case "task":
		c.pending.add(p.newest(taskID))
	case "question":
		c.pending.add(p.newest(question))
	}
}

// action sends what is pending and does what a name says.
func (p *play) action(c *client, name string) {
	c.send(c.pending.flush())
	switch name {
	case "wait":
		synctest.Wait()
	case "later":
		<-time.After(1500 * time.Millisecond)
	case "long":
		<-time.After(20 * time.Second)
	case "new":
		if len(p.conns) < maxConns {
			p.dial()
			p.current = len(p.conns) - 1
		}
	case "back":
		p.current = max(0, p.current-1)
	case "fin":
		c.fin = true
		_ = c.CloseWrite() // it never fails
	case "cut":
		c.cut = true
		c.Reset()
	case "freeze":
		c.frozen = true
		c.SetReadBuffer(0)
	}
}

var (
	sessionField = regexp.MustCompile(`\r\nMcp-Session-Id: ([!-~]+)\r\n`)
	idLine       = regexp.MustCompile(`\nid: ([!-~]+)\n`)
	taskID       = regexp.MustCompile(`"taskId":"([A-Za-z0-9_.-]+)"`)
	question     = regexp.MustCompile(`"jsonrpc":"2.0","id":("[^"\\]*"|[0-9]+),"method":"`)
)

// newest returns the last match on the newest connection that has a match, else "".
func (p *play) newest(what *regexp.Regexp) string {
	for _, c := range slices.Backward(p.conns) {
		got, _ := c.Unread()
		if all := what.FindAllSubmatch(got, -1); len(all) > 0 {
			return string(all[len(all)-1][1])
		}
	}
	return ""
}

// sendScript sends a script without actions over a connection.
func (p *play) sendScript(c *client, script string) {
	for _, token := range parse(script) {
		if token.name == "" {
			c.pending.add(token.text)
			continue
		}
		p.value(c, token.name)
	}
	c.send(c.pending.flush())
	synctest.Wait()
}

// openSession opens a session over a new connection and returns its id, "" if it was refused.
func (p *play) openSession(version string) string {
	c := p.dial()
	p.sendScript(c, Post("", Initialize(version)))
	got, _ := c.Unread()
	m := sessionField.FindSubmatch(got)
	if m == nil {
		return ""
	}
	return string(m[1])
}
