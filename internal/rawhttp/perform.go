package rawhttp

import (
	"regexp"
	"slices"
	"strings"
	"testing/synctest"
	"time"
)

func (p *play) perform() {
	p.dial()
	done := 0
	for _, token := range parse(p.script) {
		c := p.conns[p.now]
		switch {
		case token.name == "":
			c.pending.add(token.text)
		case values[token.name]:
			p.value(c, token.name)
		default:
			if done++; done <= maxActs {
				p.act(c, token.name)
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
	c.update(func() {
		if !c.cut && !c.fin {
			c.in = append(c.in, raw...)
			c.sent.Write(raw)
		}
	})
}

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
			p.session = p.open("2025-11-25")
		}
		c.pending.add(p.session)
	case "batches":
		if p.batches == "" {
			p.batches = p.open("2025-03-26")
		}
		c.pending.add(p.batches)
	case "cursor":
		c.pending.add(p.newest(idLine))
	case "question":
		c.pending.add(p.newest(question))
	}
}

func (p *play) act(c *client, name string) {
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
			p.now = len(p.conns) - 1
		}
	case "back":
		p.now = max(0, p.now-1)
	case "fin":
		c.update(func() { c.fin = true })
	case "cut":
		c.update(func() { c.conn.cut = true })
	case "freeze":
		c.update(func() { c.frozen = true })
	}
}

var (
	sessionField = regexp.MustCompile(`\r\nMcp-Session-Id: ([!-~]+)\r\n`)
	idLine       = regexp.MustCompile(`\nid: ([!-~]+)\n`)
	question     = regexp.MustCompile(`"jsonrpc":"2.0","id":("[^"\\]*"|[0-9]+),"method":"`)
)

// newest is the last match in what came over the latest connection that has one.
func (p *play) newest(what *regexp.Regexp) string {
	for _, c := range slices.Backward(p.conns) {
		got, _ := c.got()
		if all := what.FindAllSubmatch(got, -1); len(all) > 0 {
			return string(all[len(all)-1][1])
		}
	}
	return ""
}

// say sends a script without acts over a connection.
func (p *play) say(c *client, script string) {
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

// open opens a session over a connection of its own. "": it was refused.
func (p *play) open(version string) string {
	c := p.dial()
	p.say(c, Post("", Initialize(version)))
	got, _ := c.got()
	m := sessionField.FindSubmatch(got)
	if m == nil {
		return ""
	}
	return string(m[1])
}
