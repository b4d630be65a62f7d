package rejoin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// story tells what a call's connections looked like on the wire, in a line each, the oldest first:
//
//	200 sse primer@0 1:progress retry closed
//	200 sse primer@1 2:result closed
//
// Events are told by their sequence, "-" where they have no id, and by what they are; an answer that is not a stream, and an error, by
// its code, data.reason and id. The last word is how the connection ended: closed (a stream, cleanly), answered, cut, broken, or
// open. A connection that was sent no head yet is only "open".
func story(call *rejointest.Call) []string {
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
			lines = append(lines, exchange(wire+"\n"))
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

// last is the story of the newest connection.
func last(call *rejointest.Call) string {
	lines := story(call)
	return lines[len(lines)-1]
}

// exchange tells of one response.
func exchange(wire string) string {
	head, body, ok := strings.Cut(wire, "\r\n\r\n")
	if !ok {
		return ""
	}
	status := strings.Fields(head)[1]
	switch {
	case strings.Contains(head, "Content-Type: text/event-stream"):
		return strings.TrimSpace(status + " sse " + events(body))
	case strings.TrimSpace(body) != "":
		return status + " " + shape(body)
	}
	return status
}

// eventID is what the server writes, and clients do not look into: a stream, a sequence, and a primer's nonce.
var eventID = regexp.MustCompile(`^[A-Za-z0-9_-]{22}\.([0-9]+)(\.[0-9a-z]+)?$`)

// events tells of the events of a stream.
func events(body string) string {
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
		parts := eventID.FindStringSubmatch(id)
		switch {
		case named && parts == nil:
			words = append(words, "strange("+id+")")
		case named && some && data == "" && retry && parts[2] != "":
			words = append(words, "primer@"+parts[1])
		case named && some && data != "" && !retry && parts[2] == "":
			words = append(words, parts[1]+":"+shape(data))
		case !named && some && !retry:
			words = append(words, "-:"+shape(data))
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

// shape says what a message, or a batch of them, is.
func shape(data string) string {
	var list []json.RawMessage
	if json.Unmarshal([]byte(data), &list) == nil {
		var shapes []string
		for _, m := range list {
			shapes = append(shapes, shape(string(m)))
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

// response is what a handler wrote that was called without a network. Its methods may be called while it still writes.
type response struct {
	mu      sync.Mutex
	header  http.Header
	status  int
	body    strings.Builder
	flushed int // bytes
	ended   bool
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

func (w *response) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(p)
}

func (w *response) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed = w.body.Len()
}

// story is that of one connection, as story tells it.
func (w *response) story() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 {
		return "open"
	}
	kind := ""
	if w.header.Get("Content-Type") == "text/event-stream" {
		kind = "Content-Type: text/event-stream"
	}
	end := " open"
	if w.ended {
		end = " ended"
	}
	return exchange(fmt.Sprintf("HTTP/1.1 %d\r\n%s\r\n\r\n%s", w.status, kind, w.body.String())) + end
}

// serve calls a server in a goroutine of its own, without a network.
func serve(s *rejoin.Server, r *http.Request) *response {
	w := &response{header: http.Header{}}
	go func() {
		s.Serve(w, r)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = true
	}()
	synctest.Wait()
	return w
}

func TestStory(t *testing.T) {
	const id = "AAAAAAAAAAAAAAAAAAAAAA."
	require.Equal(t, "200 sse primer@0 1:progress -:result retry comment strange(x) 2:error(-1,7) expired", exchange("HTTP/1.1 200 OK\r\n"+
		"Content-Type: text/event-stream\r\n\r\nid: "+id+"0.z\nretry: 5\ndata: \n\nid: "+id+"1\ndata: {\"method\":\"notifications/progress\"}\n\n"+
		"data: {\"result\":1}\n\nretry: 1\n\n: \n\nid: x\n\nid: "+id+"2\ndata: {\"id\":7,\"error\":{\"code\":-1,\"data\":{\"reason\":\"expired\"}}}\n\n"))
}
