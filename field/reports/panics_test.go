package reports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
	mcpgotypes "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// panicking are apps of each kind whose tool calls f, at once or after its client was disconnected.
func panicking(f func()) map[string]rejoin.App {
	end := func(ctx context.Context, streams bool) {
		if streams {
			_ = rejoin.HandleFromContext(ctx).CloseStream(0)
		}
		f()
	}
	sdk := mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil)
	type none struct{}
	upstream := server.NewMCPServer("t", "1", server.WithToolCapabilities(true))
	for name, streams := range map[string]bool{"at once": false, "later": true} {
		mcp.AddTool(sdk, &mcp.Tool{Name: name}, func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
			end(ctx, streams)
			return nil, nil, nil
		})
		upstream.AddTool(mcpgotypes.NewTool(name), func(ctx context.Context, _ mcpgotypes.CallToolRequest) (*mcpgotypes.CallToolResult, error) {
			end(ctx, streams)
			return nil, errors.New("it returned")
		})
	}
	return map[string]rejoin.App{
		"NewApp": rejoin.NewApp(rejoin.Info{Name: "t", Version: "1"}, func(ctx context.Context, r *rejoin.Request) (any, error) {
			var p struct{ Name string }
			if err := r.Bind(&p); err != nil {
				return nil, err
			}
			end(ctx, p.Name == "later")
			return nil, errors.New("it returned")
		}),
		"go-sdk": gosdk.New(sdk),
		"mcp-go": mcpgo.New(upstream),
	}
}

// If a tool panics, with any value (also with the one that makes net/http break the connection), its client gets one JSON-RPC error, on the
// stream or as JSON. No recovery middleware notices, and nothing else is written.
func TestAPanicOfAnyKindIsOneError(t *testing.T) {
	var null *int
	for what, f := range map[string]func(){
		"the abort sentinel": func() { panic(http.ErrAbortHandler) },
		"an error":           func() { panic(errors.New("secret")) },
		"nothing":            func() { panic(nil) }, //nolint:govet // some do
		"a nil pointer":      func() { *null = 1 },
		"its goroutine":      runtime.Goexit, // as a failed assertion does in a tool under test
	} {
		for name, mount := range recovering {
			for sdk, app := range panicking(f) {
				if sdk == "go-sdk" && what == "its goroutine" {
					continue // it is answered too, but the SDK's session waits for its handler for ever, and so would the bubble
				}
				t.Run(what+", "+name+", "+sdk, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var said bytes.Buffer
						c := rejointest.New(t, app, rejointest.Config{
							Server:  rejoin.Config{Logger: slog.New(slog.DiscardHandler)},
							Handler: func(s *rejoin.Server) http.Handler { return mount(s, &said) },
						})
						for _, tool := range []string{"at once", "later"} {
							call := c.CallTool(tool, map[string]any{})
							err := call.Err()
							require.Equal(t, rejoin.CodeInternal, err.Code, tool)
							require.Equal(t, "internal error", err.Message, tool)
							require.Len(t, call.Messages(), 1)
							require.NotContains(t, call.String(), "broken", tool)
						}
						require.Empty(t, said.String())
						require.JSONEq(t, "{}", string(c.Start("ping", nil).Result()))
					})
				})
			}
		}
	}
}

// recovering are routers with their recovery middleware, which writes the panics that it catches to a writer.
var recovering = map[string]func(*rejoin.Server, io.Writer) http.Handler{
	"chi": func(s *rejoin.Server, said io.Writer) http.Handler {
		r := chi.NewRouter()
		r.Use(chimiddleware.RequestLogger(entries{said}), chimiddleware.Recoverer)
		chiadapter.Register(r, "/mcp", s)
		return r
	},
	"echo": func(s *rejoin.Server, said io.Writer) http.Handler {
		e := echo.New()
		e.Use(echomiddleware.RecoverWithConfig(echomiddleware.RecoverConfig{LogErrorFunc: func(_ echo.Context, err error, _ []byte) error {
			_, _ = io.WriteString(said, err.Error())
			return err
		}}))
		echoadapter.Register(e, "/mcp", s)
		return e
	},
	"gin": func(s *rejoin.Server, said io.Writer) http.Handler {
		r := gin.New()
		r.Use(gin.RecoveryWithWriter(said))
		ginadapter.Register(r, "/mcp", s)
		return r
	},
}

// entries is the log of chi's recovery middleware.
type entries struct{ said io.Writer }

func (e entries) NewLogEntry(*http.Request) chimiddleware.LogEntry { return e }
func (e entries) Write(int, int, http.Header, time.Duration, any)  {}
func (e entries) Panic(v any, _ []byte)                            { _, _ = fmt.Fprint(e.said, v) }
