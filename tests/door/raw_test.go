package door_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/rawhttp"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// raw plays a script against a server whose tool sends messages and waits for a second. Package rawhttp checks the responses, and that nothing is
// left.
func raw(t *testing.T, script string) (answers []string) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		app := kit.Tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			for range 2 {
				_ = h.Notify("notifications/x", nil) // the client may have disconnected
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(time.Second):
				}
			}
			return "done", nil
		})
		answers = rawhttp.Play(t, kit.RawSubject(t, app, rejoin.Config{MaxBodyBytes: 4096}), []byte(script))
	})
	return answers
}

// rawHead is the head of a POST in a session.
const rawHead = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {{session}}\r\nContent-Type: application/json\r\n"

// rawCall is a call in two chunks, with a trailer.
var rawCall = func() string {
	body := kit.CallBody("1", "{}")
	return rawHead + "Transfer-Encoding: chunked\r\n\r\n5\r\n" + body[:5] + "\r\n" + hex(len(body)-5) + "\r\n" + body[5:] + "\r\n0\r\nX-Trailer: x\r\n\r\n"
}()

func hex(n int) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[n/16], digits[n%16]})
}

// A request stops after any byte: its client disconnects, ends its side of the connection, or sends nothing more. It gets an error or no answer,
// and nothing is left. The last byte is included.
func TestARequestThatStopsAnywhere(t *testing.T) {
	const together = 6 // connections of one script
	for _, end := range []string{"{{cut}}", "{{fin}}", "{{freeze}}", ""} {
		for _, request := range []string{
			rawhttp.Post("", rawhttp.Initialize(kit.Polling)), rawCall,
			"GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {{session}}\r\nAccept: text/event-stream\r\n\r\n",
		} {
			request = strings.ReplaceAll(request, "{{length}}", "400") // more than follows, so it stops there too
			const name = "{{session}}"
			at := strings.Index(request, name)
			script, n := "", 0
			for i := 1; i <= len(request); i++ {
				if at >= 0 && i > at && i < at+len(name) {
					continue
				}
				script += request[:i] + "{{wait}}" + end + "{{new}}"
				if n++; n%together == 0 {
					raw(t, script+"{{long}}")
					script = ""
				}
			}
			raw(t, script+"{{long}}")
		}
	}
}

// A request that comes in pieces, however small, is answered as if it had come at once.
func TestRequestsThatDrip(t *testing.T) {
	whole := raw(t, rawCall+"{{later}}{{later}}"+rawHead+"Content-Length: {{length}}\r\n\r\n"+kit.Ping+"{{end}}{{wait}}")[0]
	require.Contains(t, whole, `"result":"done"`)
	require.Contains(t, whole, `"id":"mine","result":{}`)
	for size := range 40 {
		at := func(s string) (out string) { // s in pieces, with the placeholders whole
			for part := range strings.SplitSeq(s, "{{session}}") {
				if out != "" {
					out += "{{session}}"
				}
				for len(part) > size+1 {
					out, part = out+part[:size+1]+"{{wait}}", part[size+1:]
				}
				out += part
			}
			return out
		}
		if strings.Count(at(rawCall), "{{wait}}") > 280 {
			continue // too many pieces for a script
		}
		got := raw(t, at(rawCall)+"{{later}}{{later}}"+rawHead+"Content-Length: {{length}}\r\n\r\n"+kit.Ping+"{{end}}{{wait}}")[0]
		require.Equal(t, shape(whole), shape(got), "in pieces of %d", size+1)
	}
}

var chunkSize = regexp.MustCompile(`^[0-9a-f]{2,}\r$`)

// shape returns answers without what differs each time: dates, ids, and which events leave in one chunk. raw has checked the chunks.
func shape(answers string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(answers, "\n") {
		switch {
		case strings.HasPrefix(line, "Date: "), strings.HasPrefix(line, "retry: "), chunkSize.MatchString(line), line == "\r":
		case strings.HasPrefix(line, "id: "):
			b.WriteString(kit.ShortID(line[4:])[:1] + "\n")
		default:
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// Requests that are sent before the previous answer has come are answered in order on the connection, also with a stream in between.
func TestPipelinedRequests(t *testing.T) {
	ping := rawHead + "Content-Length: {{length}}\r\n\r\n" + kit.Ping + "{{end}}"
	got := raw(t, ping+rawCall+ping+"PUT /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"+ping+"{{later}}{{later}}")[0]
	at := 0
	for _, want := range []string{"200 OK", `"id":"mine"`, "200 OK", "text/event-stream", `"id":1,"result":"done"`, "200 OK", `"id":"mine"`, "405 ", "200 OK", `"id":"mine"`} {
		i := strings.Index(got[at:], want)
		require.GreaterOrEqual(t, i, 0, "%s after %q", want, got[:at])
		at += i + len(want)
	}
}

// The rest of a request that is refused before its body was read is never read as another request.
func TestWhatIsBehindARefusedBody(t *testing.T) {
	smuggled := "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {{session}}\r\n\r\n"
	for name, script := range map[string]string{
		"an encoded body":       rawHead + "Content-Encoding: gzip\r\nContent-Length: {{length}}\r\n\r\n" + smuggled,
		"a method without one":  "PUT /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {{length}}\r\n\r\n" + smuggled,
		"a foreign host":        strings.Replace(rawHead, "localhost", "evil.example", 1) + "Content-Length: {{length}}\r\n\r\n" + smuggled,
		"a body of a GET":       "GET /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {{length}}\r\n\r\n" + smuggled,
		"a length and chunks":   rawHead + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"beyond the limit":      rawHead + "Content-Length: {{length}}\r\n\r\n{{fill}}" + smuggled,
		"a body that is no end": rawHead + "Content-Length: 9000\r\n\r\n{{fill}}" + smuggled,
	} {
		t.Run(name, func(t *testing.T) {
			got := raw(t, script+"{{end}}{{later}}{{new}}"+rawHead+"Content-Length: {{length}}\r\n\r\n"+kit.Ping+"{{end}}{{wait}}")
			require.NotContains(t, got[0], "204 No Content")
			alive := false
			for _, one := range got[1:] {
				alive = alive || strings.Contains(one, `"id":"mine","result":{}`)
			}
			require.True(t, alive, "%q", got)
		})
	}
}
