package kit

import (
	"testing"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/rawhttp"
)

// RawSubject is a server in a bubble, for scripts of package rawhttp.
func RawSubject(t *testing.T, app rejoin.App, cfg rejoin.Config) rawhttp.Subject {
	t.Helper()
	return rawhttp.NewSubject(t, app, cfg, &rawhttp.Log{}, nil)
}
