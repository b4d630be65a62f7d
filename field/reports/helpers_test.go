package reports

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	os.Exit(m.Run())
}

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	ready      = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	ping       = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	call       = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x"}}`
)

// routers mount a server at /mcp, each in the simplest way that it has.
var routers = map[string]func(*rejoin.Server) http.Handler{
	"net/http": func(s *rejoin.Server) http.Handler {
		mux := http.NewServeMux()
		stdadapter.Register(mux, "/mcp", s)
		return mux
	},
	"chi": func(s *rejoin.Server) http.Handler {
		r := chi.NewRouter()
		chiadapter.Register(r, "/mcp", s)
		return r
	},
	"echo": func(s *rejoin.Server) http.Handler {
		e := echo.New()
		echoadapter.Register(e, "/mcp", s)
		return e
	},
	"gin": func(s *rejoin.Server) http.Handler {
		r := gin.New()
		ginadapter.Register(r, "/mcp", s)
		return r
	},
}

// onEachRouter runs a test in virtual time for each router.
func onEachRouter(t *testing.T, f func(t *testing.T, mount func(*rejoin.Server) http.Handler)) {
	t.Helper()
	for name, mount := range routers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, mount) })
		})
	}
}

// slow is an app whose tools report progress once, and return after a minute.
func slow() rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "slow", Version: "1"}, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		if err := rejoin.HandleFromContext(ctx).Notify("notifications/begun", nil); err != nil {
			return nil, err
		}
		select {
		case <-time.After(time.Minute):
			return json.RawMessage(`{}`), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
}

// newServer makes a server that is closed when the test ends.
func newServer(t *testing.T, app rejoin.App, cfg rejoin.Config) *rejoin.Server {
	t.Helper()
	s, err := rejoin.NewServer(app, cfg)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// message is a request of a client. header are names and values in turn.
func message(t *testing.T, method, url, body string, header ...string) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute/2)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// goroutines waits until all goroutines of this bubble are blocked, and returns their stacks.
func goroutines() []string {
	synctest.Wait()
	buf := make([]byte, 4<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	_, rest, _ := strings.Cut(all[0], "synctest bubble ")
	number, _, _ := strings.Cut(rest, "]")
	return slices.DeleteFunc(all, func(stack string) bool {
		head, _, _ := strings.Cut(stack, "\n")
		return number == "" || !strings.Contains(head, "synctest bubble "+number+"]")
	})
}
