package rawhttp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// respond is a handler that answers everything with a status, a type and a body.
func respond(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if raw, _ := io.ReadAll(r.Body); strings.Contains(string(raw), `"initialize"`) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "s")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":0,"result":{}}`)
			return
		}
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const (
	anEvent  = "event: message\nid: AAAAAAAAAAAAAAAAAAAAAA.1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"
	aPrimer  = "id: AAAAAAAAAAAAAAAAAAAAAA.0.1\nretry: 1\ndata: \n\n"
	anAnswer = `{"jsonrpc":"2.0","id":"mine","result":{}}`
)

func stream(body string) http.HandlerFunc { return respond(200, "text/event-stream", body) }

// faults are servers with one each, and a word of what must be said of it; "": there is none.
var faults = map[string]struct {
	h    http.HandlerFunc
	says string
}{
	"none":                       {respond(200, "application/json", anAnswer), ""},
	"none, in a stream":          {stream(aPrimer + anEvent + ": \n\nretry: 17\n\n"), ""},
	"none, in a batch":           {respond(200, "application/json", "["+anAnswer+"]"), ""},
	"an unknown status":          {respond(299, "application/json", anAnswer), "status 299"},
	"no type":                    {respond(200, "text/plain", anAnswer), "of type"},
	"no JSON":                    {respond(200, "application/json", "{"), "not JSON"},
	"a request in answer":        {respond(200, "application/json", ping), "no response"},
	"a refusal that is a result": {respond(400, "application/json", anAnswer), "no error"},
	"half an event":              {stream(anEvent[:20]), "inside an event"},
	"no name":                    {stream(strings.TrimPrefix(anEvent, "event: message\n")), "named message"},
	"an unknown field":           {stream("x: y\n\n"), "no such field"},
	"no JSON in a stream":        {stream("event: message\ndata: x\n\n"), "not JSON"},
	"a carriage return":          {stream(strings.Replace(anEvent, "\ndata", "\r\ndata", 1)), "no field"},
	"a gap":                      {stream(aPrimer + strings.Replace(anEvent, ".1\n", ".2\n", 1)), "gap"},
	"an id twice":                {stream(anEvent + anEvent), "twice"},
	"two streams":                {stream(anEvent + strings.Replace(anEvent, "AAA.1", "AAB.2", 1)), "one stream"},
	"a late primer":              {stream(anEvent + aPrimer), "primer is first"},
	"a retry without a primer":   {stream(anEvent + "retry: 17\n\n"), "bare retry"},
	"something after the end":    {stream(aPrimer + "retry: 17\n\n" + anEvent), "after a bare retry"},
	"a retry of nothing":         {stream(aPrimer + "retry: 0\n\n"), "milliseconds"},
	"a panic":                    {func(http.ResponseWriter, *http.Request) { panic("on purpose") }, "panicked: on purpose"},
	"two heads": {func(w http.ResponseWriter, r *http.Request) {
		respond(200, "application/json", anAnswer)(w, r)
		w.WriteHeader(http.StatusOK)
	}, "superfluous"},
	"a body that is too short": {func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		respond(200, "application/json", anAnswer)(w, r)
	}, "unexpected EOF"},
	"bytes after the end": {func(w http.ResponseWriter, r *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		_, _ = io.WriteString(c, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
		_ = c.Close()
	}, "more after the answers"},
	"a goroutine": {func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context().Value(leak{}).(context.Context)
		go func() { <-ctx.Done() }()
		respond(200, "application/json", anAnswer)(w, r)
	}, "at rest there are"},
	"a handler that stays": {func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Value(leak{}).(context.Context).Done()
	}, "has not returned"},
}

type leak struct{}

// Each kind of fault is seen.
func TestFaultsAreSeen(t *testing.T) {
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				first := true
				p := newPlay(Subject{
					Logged: &Log{}, EndSessions: func() {}, Left: func() string { return "" },
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						h := respond(200, "application/json", anAnswer)
						if first {
							h, first = c.h, false
						}
						h(w, r.WithContext(context.WithValue(r.Context(), leak{}, ctx)))
					}),
				}, Post("s", ping))
				p.run()
				cancel()
				said := strings.Join(p.faults, "\n")
				if c.says == "" {
					require.Empty(t, said)
				}
				require.Contains(t, said, c.says)
			})
		})
	}
}

// What a script does reaches the server as it says.
func TestAScript(t *testing.T) {
	for script, want := range map[string]string{
		"{{{wait}}}":                              "{}",
		"{{x}}{{length":                           "{{x}}{{length",
		"{{length}}\r\n\r\nabc{{end}}d{{fin}}":    "3\r\n\r\nabcd",
		"{{length}}\r\n\r\n{{session}}{{length}}": "1\r\n\r\ns",
		"a{{new}}b{{back}}c{{wait}}":              "ac",
		"a{{cut}}b":                               "a",
	} {
		synctest.Test(t, func(t *testing.T) {
			got := make(chan string, 1)
			p := newPlay(Subject{Logged: &Log{}, EndSessions: func() {}, Left: func() string { return "" }, Handler: respond(200, "application/json", anAnswer)}, script)
			p.start()
			p.perform()
			c := p.conns[0]
			got <- c.sent.String()
			require.Equal(t, want, <-got)
			for _, c := range p.conns {
				c.Reset()
			}
			p.stop()
		})
	}
}
