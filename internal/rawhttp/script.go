package rawhttp

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// token is a part of a script: bytes as they are, or a name.
type token struct {
	text string
	name string // "": it is text
}

// values are the names that stand for bytes, actions those that do something.
var (
	values  = map[string]bool{"session": true, "batches": true, "cursor": true, "task": true, "question": true, "length": true, "fill": true}
	actions = map[string]bool{
		"end": true, "wait": true, "later": true, "long": true, "new": true, "back": true, "fin": true, "cut": true, "freeze": true,
	}
)

// parse splits a script into tokens. Braces around anything but a name are ordinary bytes.
func parse(script string) (all []token) {
	var text strings.Builder
	for script != "" {
		before, rest, found := strings.Cut(script, "{{")
		text.WriteString(before)
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}}")
		if !closed || !values[name] && !actions[name] {
			text.WriteString("{") // the second brace may begin a name
			script = "{" + rest
			continue
		}
		if text.Len() > 0 {
			all = append(all, token{text: text.String()})
			text.Reset()
		}
		all = append(all, token{name: name})
		script = after
	}
	if text.Len() > 0 {
		all = append(all, token{text: text.String()})
	}
	return all
}

// pending is what will be sent when its length is known.
type pending struct {
	text     []byte
	lengthAt int // where the length is to be inserted; -1: nowhere
}

func (p *pending) add(text string) { p.text = append(p.text, text...) }

// flush returns what is to be sent, with its length, and empties p.
func (p *pending) flush() []byte {
	raw := p.text
	if p.lengthAt >= 0 {
		_, body, _ := bytes.Cut(raw[p.lengthAt:], []byte("\r\n\r\n"))
		raw = slices.Concat(raw[:p.lengthAt], strconv.AppendInt(nil, int64(len(body)), 10), raw[p.lengthAt:])
	}
	*p = pending{lengthAt: -1}
	return raw
}
