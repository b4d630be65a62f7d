package kit

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Summaries describes the connections of a call as they were on the wire, a line for each, the oldest first:
//
//	200 sse primer@0 1:progress retry closed
//	200 sse primer@1 2:result closed
//
// The first word is the status. An event is its sequence ("-" without an id, "1~" if its id has position 1 and a nonce) and the summary of its
// message; primer@1 is a primer whose position is 1. The last word says how the connection ended: closed (a stream that ended cleanly), answered (not a stream), cut (by the
// test), broken, or open: it has not ended. A connection that was sent no head yet is only "open".
func Summaries(call *rejointest.Call) []string {
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
			lines = append(lines, ResponseSummary(wire+"\n"))
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

// Last is the summary of the newest connection.
func Last(call *rejointest.Call) string {
	lines := Summaries(call)
	return lines[len(lines)-1]
}

// ResponseSummary describes one response, given as its bytes: the status, and the events of a stream or the message.
func ResponseSummary(wire string) string {
	head, body, ok := strings.Cut(wire, "\r\n\r\n")
	if !ok {
		return ""
	}
	status := strings.Fields(head)[1]
	switch {
	case strings.Contains(head, "Content-Type: text/event-stream"):
		return strings.TrimSpace(status + " sse " + EventsSummary(body))
	case strings.TrimSpace(body) != "":
		return status + " " + MessageSummary(body)
	}
	return status
}

// EventID is the form of event ids, which clients do not interpret: a stream's name, a sequence, and the nonce of a primer.
var EventID = regexp.MustCompile(`^[A-Za-z0-9_-]{22}\.([0-9]+)(\.[0-9a-z]+)?$`)

// EventsSummary describes the events of a stream. An event with data must be named message, as deployed clients require; others must have no
// name. What breaks that, or the form of event ids, is "strange"; the beginning of an event is "torn".
func EventsSummary(body string) string {
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
			words = append(words, parts[1]+":"+MessageSummary(data))
		case message && named && data != "" && !retry:
			words = append(words, parts[1]+"~:"+MessageSummary(data))
		case message && !named && !retry:
			words = append(words, "-:"+MessageSummary(data))
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

// MessageSummary describes a message: result, error(code,id) with data.reason, or the method without "notifications/". A batch is the
// summaries of its messages in brackets.
func MessageSummary(data string) string {
	var list []json.RawMessage
	if json.Unmarshal([]byte(data), &list) == nil {
		var shapes []string
		for _, m := range list {
			shapes = append(shapes, MessageSummary(string(m)))
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
