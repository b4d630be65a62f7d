package rejointest

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/core"
)

// Config is what New and NewCluster start with. Zero fields mean their defaults.
type Config struct {
	// Server is the configuration under test. Its Logger defaults to one that writes to the test's log.
	Server rejoin.Config
	// Version is the client's protocol version. Defaults to the newest one in which clients poll. The test fails if the app
	// negotiates another one.
	Version string

	// Processes is how many processes NewCluster starts. Defaults to 3.
	Processes int
	// Each changes the configuration of one process of NewCluster before it starts; n counts them from 0. It gets a copy of Server, in which
	// Store is the engine that the processes share. Its Cluster has what Server.Cluster has, a Name, the Self of the process, and a Transport
	// over connections in memory, which a Transport of yours may wrap. A Store or a Cluster.Directory of yours must be that of one engine in
	// all processes, and must not leave the bubble.
	Each func(n int, cfg *rejoin.Config)

	// Handler mounts the server, so that your router and your middleware are part of the test. Defaults to stdadapter.New.
	Handler func(*rejoin.Server) http.Handler
	// Path is where Handler mounts it. Defaults to "/mcp".
	Path string
	// HTTP changes the http.Server before it starts: time-outs, BaseContext, RegisterOnShutdown.
	HTTP func(*http.Server)

	// Header is sent with every request: credentials, another Accept. It replaces the client's own fields of the same name.
	Header http.Header
	// Capabilities are what the client offers in initialize. Defaults to elicitation, sampling and roots if OnRequest is set, else
	// to nothing.
	Capabilities map[string]any
	// OnRequest answers the server's requests, each in its own goroutine, and each once, however often it is replayed. A *rejoin.Error
	// is sent as it is, another error as -32603 with its text. OnRequest may block, but must not call methods of Client or Call. If it is
	// nil, requests are answered with -32601, "method not found".
	OnRequest func(method string, params json.RawMessage) (any, error)

	// Patience is the longest wait of the test, in virtual time: a wait that takes longer fails the test. Defaults to 1 h.
	Patience time.Duration
}

// resolve fills in the defaults.
func (c *Config) resolve(t testing.TB) {
	if c.Server.Logger == nil {
		c.Server.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if c.Version == "" {
		c.Version = newest()
	}
	if c.Handler == nil {
		c.Handler = stdadapter.New
	}
	if c.Path == "" {
		c.Path = "/mcp"
	}
	if c.Capabilities == nil {
		c.Capabilities = map[string]any{}
		if c.OnRequest != nil {
			c.Capabilities = map[string]any{"elicitation": struct{}{}, "sampling": struct{}{}, "roots": struct{}{}}
		}
	}
	if c.OnRequest == nil {
		c.OnRequest = func(method string, _ json.RawMessage) (any, error) {
			return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "rejointest: Config.OnRequest does not answer %s", method)
		}
	}
	if c.Patience == 0 {
		c.Patience = time.Hour
	}
}

// newest returns the newest version in which clients poll.
func newest() string {
	for _, v := range core.Versions {
		if v.Polls {
			return v.Name
		}
	}
	panic("rejointest: no version polls")
}
