package calls_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// endApp is an app that records the cause with which its sessions end.
type endApp struct {
	rejoin.App
	ended chan error
}

func (a *endApp) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	inner, err := a.App.Open(r, s, state)
	return &endSession{inner, a}, err
}

type endSession struct {
	rejoin.AppSession
	app *endApp
}

func (s *endSession) Ended(cause error) {
	s.app.ended <- cause
	s.AppSession.Ended(cause)
}

// An app ends a session with an error of its own. Its tools, its notifications and its side of the session get this error as the cause. The
// client does not get it.
func TestTheCauseThatAnAppEndsASessionWithArrives(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		watched := &endApp{app, make(chan error, 1)}
		c := kit.New(t, watched, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		away := c.CallTool("y", nil)
		other := next()
		kit.Elapse(time.Second)
		away.Cut() // so that its question waits
		asked := make(chan error, 1)
		go func() { asked <- other.Ask(t.Context(), "ping", nil, nil) }()
		synctest.Wait()
		enough := errors.New("a private reason")
		tool.Session().End(enough)
		for what, cause := range map[string]error{"the tool": tool.Cause(), "the app": <-watched.ended, "the question": <-asked} {
			require.ErrorIs(t, cause, rejoin.ErrSessionEnded, what)
			require.ErrorIs(t, cause, enough, what)
		}
		require.Equal(t, rejoin.ReasonEnded, call.Err().Reason())
		require.NotContains(t, call.Wire(), "private")
	})
}
