package kit

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Story tells what a call's connections looked like on the wire, in a line each, the oldest first:
//
//	200 sse primer@0 1:progress retry closed
//	200 sse primer@1 2:result closed
//
// Events are told by their sequence, "-" where they have no id, and by what they are; an answer that is not a stream, and an error, by
// its code, data.reason and id. The last word is how the connection ended: closed (a stream, cleanly), answered, cut, broken, or
// open. A connection that was sent no head yet is only "open".
func Story(call *rejointest.Call) []string {
	var lines []string
	for part := range strings.SplitSeq("\n"+call.String(), "\n--- ") {
		title, wire, _ := strings.Cut(part, "\n")
		_, what, _ := strings.Cut(title, ": ")
		switch {
		case title == "":
		case title == "open":
			lines[len(lines)-1] += " open"
		case what == "stream closed by the server":
			lines[len(lines)-1] += " closed"
		case what == "answered", what == "cut by the test":
			lines[len(lines)-1] += " " + strings.Fields(what)[0]
		case strings.HasPrefix(what, "broken"):
			lines[len(lines)-1] += " broken"
		default:
			lines = append(lines, Exchange(wire+"\n"))
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

// Last is the story of the newest connection.
func Last(call *rejointest.Call) string {
	lines := Story(call)
	return lines[len(lines)-1]
}

// Exchange tells of one response.
func Exchange(wire string) string {
	head, body, ok := strings.Cut(wire, "\r\n\r\n")
	if !ok {
		return ""
	}
	status := strings.Fields(head)[1]
	switch {
	case strings.Contains(head, "Content-Type: text/event-stream"):
		return strings.TrimSpace(status + " sse " + Events(body))
	case strings.TrimSpace(body) != "":
		return status + " " + Shape(body)
	}
	return status
}

// EventID is what the server writes, and clients do not look into: a stream, a sequence, and a primer's nonce.
var EventID = regexp.MustCompile(`^[A-Za-z0-9_-]{22}\.([0-9]+)(\.[0-9a-z]+)?$`)

// Events tells of the events of a stream. What carries data has the name that deployed clients ask for; what does not has none.
func Events(body string) string {
	var words []string
	for body != "" {
		block, rest, whole := strings.Cut(body, "\n\n")
		body = rest
		if !whole {
			words = append(words, "torn("+block+")")
			break
		}
		fields := map[string]string{}
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			fields[name] = value
		}
		id, named := fields["id"]
		data, some := fields["data"]
		_, retry := fields["retry"]
		event, hasName := fields["event"]
		message := event == "message"
		parts := EventID.FindStringSubmatch(id)
		switch {
		case named && parts == nil:
			words = append(words, "strange("+id+")")
		case hasName && !(message && some && data != ""):
			words = append(words, "strange("+block+")")
		case named && some && data == "" && retry && parts[2] != "":
			words = append(words, "primer@"+parts[1])
		case message && named && data != "" && !retry && parts[2] == "":
			words = append(words, parts[1]+":"+Shape(data))
		case message && !named && !retry:
			words = append(words, "-:"+Shape(data))
		case !named && !some && retry:
			words = append(words, "retry")
		case block == ": ":
			words = append(words, "comment")
		default:
			words = append(words, "strange("+block+")")
		}
	}
	return strings.Join(words, " ")
}

// Shape says what a message, or a batch of them, is.
func Shape(data string) string {
	var list []json.RawMessage
	if json.Unmarshal([]byte(data), &list) == nil {
		var shapes []string
		for _, m := range list {
			shapes = append(shapes, Shape(string(m)))
		}
		return "[" + strings.Join(shapes, " ") + "]"
	}
	var m struct {
		Method string
		ID     json.RawMessage
		Result json.RawMessage
		Error  *struct {
			Code int
			Data struct{ Reason string }
		}
	}
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		return "strange(" + data + ")"
	}
	switch {
	case m.Error != nil:
		return strings.TrimSpace(fmt.Sprintf("error(%d,%s) %s", m.Error.Code, m.ID, m.Error.Data.Reason))
	case m.Result != nil:
		return "result"
	}
	return strings.TrimPrefix(m.Method, "notifications/")
}
