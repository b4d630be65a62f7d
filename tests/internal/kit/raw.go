package kit

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/internal/rawhttp"
)

// RawSubject is a server for scripts of raw HTTP, in a bubble.
func RawSubject(t *testing.T, app rejoin.App, cfg rejoin.Config) rawhttp.Subject {
	t.Helper()
	logged := &rawhttp.Log{}
	cfg.Logger = slog.New(slog.NewTextHandler(logged, nil))
	srv := NewServer(t, app, cfg)
	return rawhttp.Subject{
		Handler: stdadapter.New(srv), Logged: logged,
		EndSessions: func() {
			for info := range srv.Sessions() {
				require.NoError(t, srv.EndSession(info.Ref))
			}
		},
		Left: func() string {
			now := srv.Stats()
			gauges := rejoin.Stats{Sessions: now.Sessions, Streams: now.Streams, Connections: now.Connections, Parked: now.Parked, StoredBytes: now.StoredBytes}
			if gauges != (rejoin.Stats{}) {
				return fmt.Sprintf("%+v", gauges)
			}
			return ""
		},
	}
}
