// Package mounted is what the tests of the adapters share besides package adaptertest: a server to mount, and checks of where it is mounted.
package mounted

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// App returns an app whose tools close their stream, wait a minute, and answer with what tell returns, as JSON.
func App(tell func(context.Context) any) rejoin.App {
	return rejoin.NewApp(info, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		if err := rejoin.HandleFromContext(ctx).CloseStream(0); err != nil {
			return nil, err
		}
		<-time.After(time.Minute)
		raw, err := json.Marshal(tell(ctx))
		return json.RawMessage(raw), err
	})
}

var info = rejoin.Info{Name: "test", Capabilities: map[string]any{"tools": struct{}{}}}

// Done is the tell of tools whose answer does not matter.
func Done(context.Context) any { return "done" }

// NewServer returns a server that is closed when the test ends.
func NewServer(t testing.TB) *rejoin.Server {
	t.Helper()
	s, err := rejoin.NewServer(App(Done), rejoin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Send sends an initialize request by any method.
func Send(h http.Handler, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(initialize))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Serves checks that the endpoint is served at path and path+"/", and answers all verbs itself.
func Serves(t testing.TB, h http.Handler, path string) {
	t.Helper()
	for _, spelling := range []string{path, path + "/"} {
		if code := Send(h, http.MethodPost, spelling).Code; code != http.StatusOK {
			t.Errorf("POST %s: %d", spelling, code)
		}
		if code := Send(h, http.MethodGet, spelling).Code; code != http.StatusBadRequest {
			t.Errorf("GET %s without a session: %d", spelling, code)
		}
		if allow := Send(h, http.MethodPut, spelling).Header().Get("Allow"); allow != "GET, POST, DELETE" {
			t.Errorf("PUT %s: Allow: %q", spelling, allow)
		}
	}
}

// Everything runs a session that gets each kind of answer. want is what a request logger must write: methods and statuses, in order.
func Everything(t testing.TB, c *rejointest.Client) (want []string) {
	t.Helper()
	call := c.CallTool("x", nil)
	call.WaitClosed()
	if got := string(call.Result()); got != `"done"` {
		t.Errorf("result: %s", got)
	}
	send := func(method, path string) {
		if err := c.Do(httptest.NewRequest(method, "http://rejoin.test"+path, http.NoBody)).Body.Close(); err != nil {
			t.Error(err)
		}
	}
	send(http.MethodPut, "/mcp")
	send(http.MethodGet, "/nowhere")
	c.Delete()
	send(http.MethodGet, "/mcp")
	synctest.Wait()
	return []string{"POST 200", "POST 202", "POST 200", "GET 200", "PUT 405", "GET 404", "DELETE 204", "GET 404"}
}
