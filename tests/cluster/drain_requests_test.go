package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A session that is about to be opened when the drain begins is opened by another process.
func TestInitializeCrossesTheBeginningOfADrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		var done chan error
		of(0).opens(func(*http.Request, *rejoin.Session, []byte) error {
			done = make(chan error, 1)
			go func() { done <- w.processes[0].Drain(t.Context()) }()
			<-time.After(time.Second)
			return nil
		})
		res := kit.Serve(w.processes[0].Server, kit.Request(t, http.MethodPost, kit.Initialize))
		elapse(2 * time.Second)
		require.Equal(t, served, res.Summary())
		require.NoError(t, <-done)
		require.Equal(t, served, w.ping(t, 0, res.Head.Get("Mcp-Session-Id")))
		require.Len(t, kit.Sessions(w.processes[1].Server), 1)
	})
}
