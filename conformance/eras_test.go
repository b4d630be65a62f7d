package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	rejoinclient "github.com/rejoin-mcp/rejoin/client"
	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
	"github.com/rejoin-mcp/rejoin/conformance/internal/spray"
)

// The table of docs/eras.md: which era real clients use under each choice of Config.Eras, and what becomes of a long call behind a proxy that
// cuts every request. It takes real time, because each client has real timers.

const erasDoc = "../docs/eras.md"

const (
	cutAfter   = time.Second            // the proxy's limit
	letGoAfter = 300 * time.Millisecond // the server's CloseAfter
	longCall   = 1500 * time.Millisecond
	waitsOn    = 5 * time.Second // a client without an outcome so long after the tool has returned waits for its own time-out
)

// chooser is a client that chooses an era by itself.
type chooser struct {
	name    string
	tasks   bool // it declares the extension for tasks, and does not know tasks. So it is given none, and makes no long call
	connect func(t *testing.T, url string) (call func(tool string) error, err error)
}

// choices are the columns of the table.
var choices = []rejoin.Eras{rejoin.EraDefault, rejoin.EraBoth, rejoin.EraLegacy, rejoin.EraModern}

// row is a row of the table, as the client behaves now.
func (c chooser) row(t *testing.T, servers []func(tools) rejoin.App) string {
	t.Helper()
	cells := make([]string, len(choices))
	var lock sync.Mutex
	t.Run("choices", func(t *testing.T) { // returns when all have ended
		for i, eras := range choices {
			for j, app := range servers {
				if j > 0 && eras != rejoin.EraDefault {
					break // the first server is enough
				}
				t.Run(fmt.Sprint(eras, "-", j), func(t *testing.T) {
					t.Parallel()
					cell := c.cell(t, eras, app)
					lock.Lock()
					defer lock.Unlock()
					if cells[i] != "" && cells[i] != cell {
						cell = cells[i] + " or " + cell
					}
					cells[i] = cell
				})
			}
		}
	})
	return "| " + c.name + " | " + strings.Join(cells, " | ") + " |\n"
}

// cell says which era the client uses, and what becomes of its long call.
func (c chooser) cell(t *testing.T, eras rejoin.Eras, app func(tools) rejoin.App) string {
	t.Helper()
	returned := make(chan struct{})
	srv, err := rejoin.NewServer(app(tools{"quick": quick, "long": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
		defer close(returned)
		if err := h.Progress(1, 2, ""); err != nil {
			return "", err
		}
		return "done", sample.Work(ctx, longCall)
	}}), rejoin.Config{
		Eras: eras, Policy: rejoin.Policy{CloseAfter: letGoAfter, Retry: 100 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	w := newWire(nil)
	server := httptest.NewServer(w.record(mux))
	t.Cleanup(server.Close)
	t.Cleanup(srv.Close) // if the client hangs, server.Close would wait for ever

	call, err := c.connect(t, cutting(t, server.URL)+"/mcp")
	if err == nil {
		err = call("quick")
	}
	if err != nil {
		t.Logf("%v", err)
		return "fails to connect"
	}
	calls := w.all(func(e *exchange) bool { return e.calls("tools/call") })
	require.Len(t, calls, 1)
	version := calls[0].header.Get("Mcp-Protocol-Version")
	require.Equal(t, version < "2026", calls[0].header.Get("Mcp-Session-Id") != "", "only the legacy era has sessions")
	if c.tasks && version >= "2026" {
		return version
	}
	outcome := make(chan error, 1)
	go func() { outcome <- call("long") }()
	<-returned
	select {
	case err = <-outcome:
	case <-time.After(waitsOn):
		return version + ", lost: it waits"
	}
	if err != nil {
		t.Logf("%v", err)
		return version + ", lost"
	}
	return version + ", completes"
}

// cutting starts a proxy that ends each request after cutAfter, whatever is on its way.
func cutting(t *testing.T, server string) (address string) {
	t.Helper()
	return startProxy(t, server, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		ctx, cancel := context.WithTimeout(r.Context(), cutAfter)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// startProxy starts a proxy before a server. It serves each request with serve, which passes it on.
func startProxy(t *testing.T, server string, serve func(w http.ResponseWriter, r *http.Request, next http.Handler)) (address string) {
	t.Helper()
	target, err := url.Parse(server)
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.FlushInterval, forward.ErrorLog = -1, log.New(io.Discard, "", 0)
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, spray.ReadFirst(forward)) }))
	t.Cleanup(p.Close)
	t.Cleanup(p.CloseClientConnections)
	return p.URL
}

// documented reports whether the document has a row.
func documented(t *testing.T, row string) bool {
	t.Helper()
	text, err := os.ReadFile(erasDoc)
	require.NoError(t, err)
	return strings.Contains(string(text), row)
}

func requireRow(t *testing.T, row string) {
	t.Helper()
	require.True(t, documented(t, row), "docs/eras.md does not have the row %s", row)
}

// goChoosers are the clients in Go.
func goChoosers() []chooser {
	withTasks := &mcp.ClientCapabilities{}
	withTasks.AddExtension("io.modelcontextprotocol/tasks", nil)
	return []chooser{
		{name: "go-sdk v1.8.0", connect: viaGoSDK(nil, "")},
		{name: "go-sdk v1.8.0, told to use 2026-07-28", connect: viaGoSDK(nil, "2026-07-28")},
		{name: "go-sdk v1.8.0, with the extension", tasks: true, connect: viaGoSDK(withTasks, "")},
		{name: "mcp-go v1.2.1", connect: viaMCPGo(nil)},
		{name: "mcp-go v1.2.1, with the extension", tasks: true, connect: viaMCPGo(map[string]any{"io.modelcontextprotocol/tasks": struct{}{}})},
		{name: "package client", connect: viaClient(rejoinclient.EraAuto)},
		{name: "package client, `EraLegacy`", connect: viaClient(rejoinclient.EraLegacy)},
		{name: "package client, `EraModern`", connect: viaClient(rejoinclient.EraModern)},
	}
}

func viaClient(era rejoinclient.Era) func(*testing.T, string) (func(string) error, error) {
	return func(t *testing.T, url string) (func(string) error, error) {
		t.Helper()
		s, err := rejoinclient.Connect(t.Context(), url, rejoinclient.Config{Era: era})
		if err != nil {
			return nil, err
		}
		t.Cleanup(s.Leave)
		return func(tool string) error {
			return s.Do(t.Context(), "tools/call", map[string]any{
				"name": tool, "arguments": struct{}{}, "_meta": map[string]any{"progressToken": tool},
			}, nil)
		}, nil
	}
}

func viaGoSDK(capabilities *mcp.ClientCapabilities, version string) func(*testing.T, string) (func(string) error, error) {
	return func(t *testing.T, url string) (func(string) error, error) {
		t.Helper()
		c := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, &mcp.ClientOptions{Capabilities: capabilities})
		s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = s.Close() }) // its connection may be gone
		return func(tool string) error {
			_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Meta: mcp.Meta{"progressToken": tool}})
			return err
		}, nil
	}
}

func viaMCPGo(extensions map[string]any) func(*testing.T, string) (func(string) error, error) {
	return func(t *testing.T, url string) (func(string) error, error) {
		t.Helper()
		wire, err := transport.NewStreamableHTTP(url, transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return nil, err
		}
		s := client.NewClient(wire)
		t.Cleanup(func() { _ = s.Close() }) // its connection may be gone
		if err := s.Start(t.Context()); err != nil {
			return nil, err
		}
		initialize := mcpgo.InitializeRequest{}
		initialize.Params.ClientInfo = mcpgo.Implementation{Name: "mcp-go", Version: "1"}
		initialize.Params.Capabilities.Extensions = extensions
		if _, err := s.Initialize(t.Context(), initialize); err != nil {
			return nil, err
		}
		return func(tool string) error {
			request := mcpgo.CallToolRequest{}
			request.Params.Name, request.Params.Meta = tool, &mcpgo.Meta{ProgressToken: tool}
			_, err := s.CallTool(t.Context(), request)
			return err
		}, nil
	}
}

func TestErasOfGoClients(t *testing.T) {
	t.Parallel()
	for _, c := range goChoosers() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			servers := []func(tools) rejoin.App{bridgedGoSDK, bridgedMCPGo, newApp}
			row := c.row(t, servers)
			if !documented(t, row) { // on a busy machine a proxy may cut before the server has let go: once more
				t.Logf("differs: %s", row)
				row = c.row(t, servers)
			}
			requireRow(t, row)
		})
	}
}
