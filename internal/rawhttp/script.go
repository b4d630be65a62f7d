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

// values are the names that stand for bytes; acts those that do something.
var (
	values = map[string]bool{"session": true, "batches": true, "cursor": true, "question": true, "length": true, "fill": true}
	acts   = map[string]bool{
		"end": true, "wait": true, "later": true, "long": true, "new": true, "back": true, "fin": true, "cut": true, "freeze": true,
	}
)

// parse takes a script apart. Braces around anything but a name are bytes like others.
func parse(script string) (all []token) {
	var text strings.Builder
	for script != "" {
		before, rest, found := strings.Cut(script, "{{")
		text.WriteString(before)
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}}")
		if !closed || !values[name] && !acts[name] {
			text.WriteString("{") // the next one may be the first of a name
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

// pending is what is to be sent once its length is known.
type pending struct {
	text     []byte
	lengthAt int // where a length belongs; -1: nowhere
}

func (p *pending) add(text string) { p.text = append(p.text, text...) }

// flush returns what is to be sent.
func (p *pending) flush() []byte {
	raw := p.text
	if p.lengthAt >= 0 {
		_, body, _ := bytes.Cut(raw[p.lengthAt:], []byte("\r\n\r\n"))
		raw = slices.Concat(raw[:p.lengthAt], strconv.AppendInt(nil, int64(len(body)), 10), raw[p.lengthAt:])
	}
	*p = pending{lengthAt: -1}
	return raw
}
