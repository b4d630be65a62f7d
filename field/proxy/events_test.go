//go:build nginx

package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// message is a request as a client without an SDK sends it.
func message(t *testing.T, n entrance, method, session, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(deadline(t), method, n.url(), strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Content-Type", "application/json")
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	return r
}

func post(t *testing.T, n entrance, session, body string) *http.Response {
	t.Helper()
	return do(t, n, message(t, n, http.MethodPost, session, body))
}

func do(t *testing.T, n entrance, r *http.Request) *http.Response {
	t.Helper()
	answer, err := n.client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

const (
	hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"test","version":"1"}}}`
	ready   = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	request = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work","arguments":{},"_meta":{"progressToken":"t"}}}`
	unknown = `{"jsonrpc":"2.0","id":3,"method":"no/such"}` // is answered at once
)

// open opens a session.
func open(t *testing.T, n entrance) (session string) {
	t.Helper()
	answer := post(t, n, "", hello)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, http.StatusAccepted, post(t, n, answer.Header.Get("Mcp-Session-Id"), ready).StatusCode)
	return answer.Header.Get("Mcp-Session-Id")
}

// A proxy that buffers and compresses passes each event on at once: the tool sends the next event only when the client has read the one
// before. All events come in the answer to the POST.
func TestEventsPassABufferingProxyAtOnce(t *testing.T) {
	t.Parallel()
	for _, f := range fronts() {
		for _, version := range []string{"compressed", "plain"} {
			t.Run(f.name+", "+version, func(t *testing.T) {
				t.Parallel()
				app, seen := stepByStep()
				_, address := serve(t, app, rejoin.Config{})
				n := run(t, address, f, settings{limit: patience})
				n.Client.Transport.(*http.Transport).DisableCompression = version == "plain"
				answer := post(t, n, open(t, n), request)
				require.Equal(t, version == "compressed", answer.Uncompressed, "gzip is on")
				if f.tls {
					require.Equal(t, 2, answer.ProtoMajor)
				}
				requireStepByStep(t, answer, seen)
			})
		}
	}
	// nginx does not pass X-Accel-Buffering on to the next nginx, unless it is configured to.
	t.Run("two in a row", func(t *testing.T) {
		t.Parallel()
		app, seen := stepByStep()
		_, address := serve(t, app, rejoin.Config{})
		inner := plain
		inner.location += " proxy_pass_header X-Accel-Buffering;"
		n := run(t, run(t, address, inner, settings{limit: patience}).address(), plain, settings{limit: patience})
		requireStepByStep(t, post(t, n, open(t, n), request), seen)
	})
}

const steps = 20

// stepByStep is an app whose tool waits after each message until the test has seen it.
func stepByStep() (app rejoin.App, seen chan struct{}) {
	seen = make(chan struct{})
	return own(func(ctx context.Context, say func(string) error) (string, error) {
		for i := range steps {
			if err := say(fmt.Sprintf("part %d of %d", i+1, steps)); err != nil {
				return "", err
			}
			if err := hold(ctx, seen); err != nil {
				return "", err
			}
		}
		return "done", nil
	}), seen
}

func requireStepByStep(t *testing.T, answer *http.Response, seen chan<- struct{}) {
	lines := lines(t, answer.Body)
	for i := range steps {
		await(t, lines, fmt.Sprintf(`"message":"part %d of`, i+1))
		seen <- struct{}{}
	}
	await(t, lines, `"text":"done"`)
}

// The test above can fail: a proxy that ignores X-Accel-Buffering, or does not get it, holds events back until the answer ends.
func TestABufferingProxyKeepsEventsElse(t *testing.T) {
	t.Parallel()
	for _, f := range fronts() {
		for _, version := range []string{"compressed", "plain"} {
			if version == "plain" && f.name != plain.name {
				continue // nginx passes each chunk on, unless it compresses
			}
			t.Run(f.name+", "+version, func(t *testing.T) {
				t.Parallel()
				ignoring := f
				ignoring.location += " proxy_ignore_headers X-Accel-Buffering;"
				requireKept(t, func(address string) *nginx {
					n := run(t, address, ignoring, settings{limit: patience})
					n.Client.Transport.(*http.Transport).DisableCompression = version == "plain"
					return n
				})
			})
		}
	}
	t.Run("two in a row", func(t *testing.T) {
		t.Parallel()
		requireKept(t, func(address string) *nginx {
			return run(t, run(t, address, plain, settings{limit: patience}).address(), plain, settings{limit: patience})
		})
	})
}

func requireKept(t *testing.T, front func(address string) *nginx) {
	said, release := make(chan struct{}), make(chan struct{})
	_, address := serve(t, own(func(ctx context.Context, say func(string) error) (string, error) {
		if err := say("part 1"); err != nil {
			return "", err
		}
		close(said)
		return "done", hold(ctx, release)
	}), rejoin.Config{})
	n := front(address)
	session := open(t, n)
	answers, call := make(chan *http.Response, 1), message(t, n, http.MethodPost, session, request)
	go func() {
		if answer, err := n.Client.Do(call); err == nil {
			answers <- answer
		}
	}()
	receive(t, said)
	var heard <-chan string
	for range 100 { // round trips through the same nginx give the event time to arrive
		_, err := io.Copy(io.Discard, post(t, n, session, unknown).Body)
		require.NoError(t, err)
		select {
		case answer := <-answers: // the head may come before the end
			defer answer.Body.Close()
			heard = lines(t, answer.Body)
		case line := <-heard:
			require.NotContains(t, line, "part 1")
		default:
		}
	}
	close(release)
	if heard == nil {
		answer := receive(t, answers)
		defer answer.Body.Close()
		heard = lines(t, answer.Body)
	}
	await(t, heard, "part 1")
	await(t, heard, "done")
}

// lines returns the lines of a body as they come.
func lines(t *testing.T, body io.Reader) <-chan string {
	out := make(chan string)
	ctx := t.Context()
	go func() {
		defer close(out)
		for s := bufio.NewScanner(body); s.Scan(); {
			select {
			case out <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// await reads up to a line that contains text.
func await(t *testing.T, lines <-chan string, text string) {
	t.Helper()
	for limit := time.After(patience); ; {
		select {
		case line, ok := <-lines:
			require.True(t, ok, "the answer ended before %s", text)
			if strings.Contains(line, text) {
				return
			}
		case <-limit:
			t.Fatalf("did not come: %s", text)
		}
	}
}
