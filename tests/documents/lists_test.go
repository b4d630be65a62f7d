package documents_test

import (
	"regexp"
	"strings"
)

// item is an item of a list in a document, whose sub-items are its parts.
type item struct {
	line    int    // where it begins
	heading string // the heading that it is below
	text    string
	parts   map[string]string // by the names that they begin with: "- *name:* text"
}

var aPart = regexp.MustCompile(`^  - \*([^*]+):\* ?(.*)$`)

// itemsOf are the items of all lists. Lines that go on with an item or a part are indented; they are joined.
func itemsOf(text string) (all []*item) {
	var last *item // the item to which lines belong; nil outside of a list
	var part, heading string
	for number, line := range strings.Split(text, "\n") {
		sub := aPart.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "#"):
			heading, last = line, nil
		case strings.HasPrefix(line, "- "):
			last, part = &item{number + 1, heading, line[2:], map[string]string{}}, ""
			all = append(all, last)
		case last != nil && sub != nil:
			part = sub[1]
			last.parts[part] = sub[2]
		case last != nil && strings.HasPrefix(line, "  "):
			if more := " " + strings.TrimSpace(line); part == "" {
				last.text += more
			} else {
				last.parts[part] += more
			}
		default:
			last = nil
		}
	}
	return all
}
