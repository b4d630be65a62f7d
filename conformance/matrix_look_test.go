//go:build node

package conformance_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// look fills in what the network and the client's output show about an encounter that is over.
func (e *encounter) look(s *sight, what scenario) {
	e.lookAtConnection(s)
	if !what.idles {
		e.lookAtCall(s)
	}
	steps := map[string]bool{}
	for _, l := range e.all() {
		switch text := plain(l.Text); l.Kind {
		case "progress":
			s.told++
		case "asked":
			s.asked++
		case "status":
			steps[text] = true
		case "trouble":
			s.logs = append(s.logs, text)
		case "garbage", "stderr":
			if troubled.MatchString(text) {
				s.logs = append(s.logs, text)
			}
		}
	}
	s.steps, s.stopped = len(steps), e.locked(func() bool { return e.stopped })
	slices.Sort(s.logs)
	s.logs = slices.Compact(s.logs)
}

// implementation is how a client identifies itself.
type implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func (i implementation) String() string { return plain(i.Name) + " " + i.Version }

func (e *encounter) lookAtConnection(s *sight) {
	for _, x := range e.wire.all(func(x *exchange) bool { return x.method == http.MethodPost }) {
		var request struct {
			Method string
			Params struct {
				ClientInfo implementation
				Meta       struct {
					ClientInfo implementation `json:"io.modelcontextprotocol/clientInfo"`
				} `json:"_meta"`
			}
		}
		_ = json.Unmarshal([]byte(x.request), &request) // without a method if it is not a request
		s.agent = x.header.Get("User-Agent")
		switch request.Method {
		case "initialize":
			var answer struct {
				Result struct{ ProtocolVersion string }
			}
			_ = json.Unmarshal(x.body, &answer)
			s.version, s.info = answer.Result.ProtocolVersion, request.Params.ClientInfo.String()
		case "tools/call":
			if s.version == "" { // a client of the modern era
				s.version, s.info = x.header.Get("Mcp-Protocol-Version"), request.Params.Meta.ClientInfo.String()
			}
		}
	}
}

func (e *encounter) lookAtCall(s *sight) {
	calls := e.wire.all(func(x *exchange) bool { return x.calls("tools/call") })
	if len(calls) == 0 {
		return
	}
	for _, x := range calls {
		if x.isTask() {
			s.tasks++
			s.forced = s.forced || !strings.Contains(x.request, tasksExtension)
		}
	}
	if len(calls) > 1 {
		s.end += ", called twice"
	}
	streams := calls[:1]
	if list := events(calls[0].body); calls[0].contentType() == "text/event-stream" && len(list) > 0 && list[0].id != "" {
		polls := e.wire.all(e.polls(calls[0]))
		s.back = len(polls)
		streams = append(streams, polls...)
	}
	for _, x := range streams {
		if x.contentType() == "text/event-stream" && x.status == http.StatusOK && x.ended && !x.left && !answered(false)(&x) {
			s.letGo++
		}
	}
}

// troubled matches lines about problems, among those that a program also writes without problems.
var troubled = regexp.MustCompile(`(?i)error|fail|warn|invalid|unknown|unexpected|exception|reject`)

// noise is what differs between runs.
var noise = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\x1b\[[0-9;]*m`), ""},
	{regexp.MustCompile(`^\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z? `), ""},
	{regexp.MustCompile(`https?://(127\.0\.0\.1|localhost):\d+/mcp`), "URL"},
	{regexp.MustCompile(`(127\.0\.0\.1|\[::1\]|localhost):\d+`), "address"},
	{regexp.MustCompile(`^\[\d+\] `), ""},
	{regexp.MustCompile(`(file://)?/[^\s'"]*/node_modules/`), ""},
}

// plain is the first line of a text, without what differs between runs.
func plain(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	for _, n := range noise {
		text = n.what.ReplaceAllString(text, n.by)
	}
	return strings.TrimSpace(text)
}
