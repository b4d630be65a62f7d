package engine

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// testHost is a server around one session.
type testHost struct {
	ended error
	why   core.Reason
}

func (h *testHost) Cause(why core.Reason) error             { return errors.New("because") }
func (h *testHost) Failure(id []byte, _ core.Reason) []byte { return id }
func (h *testHost) Ended(why core.Reason, cause error)      { h.why, h.ended = why, cause }
func (h *testHost) Report(Event)                            {}

type testTool struct{ cause error }

func (t *testTool) Cancel(cause error) {
	if t.cause == nil {
		t.cause = cause
	}
}

func open(t *testing.T) (*Session, *testHost) {
	t.Helper()
	e := New(Config{Store: eventstore.NewMemory(eventstore.MemoryConfig{})})
	var (
		s    Session
		host testHost
		tool testTool
		r    Request
	)
	s.Init(e, &host, Identity{ID: "id", Created: time.Now()})
	r.Init(&s, &tool, "1", "initialize", false)
	w := httptest.NewRecorder()
	c, started := s.Post(respond.New(w, 0), &Post{Request: &r, Flags: core.Initialize, Policy: core.Policy{Mode: core.JSON}})
	require.True(t, started)
	require.True(t, r.Claim())
	s.Opened("2025-11-25", true)
	require.Equal(t, core.NoReason, r.Reply([]byte("{}"), false))
	how, _ := c.Serve(t.Context())
	require.Equal(t, Answered, how)
	c.End(how)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "id", w.Header().Get(respond.SessionHeader))
	require.ErrorIs(t, tool.cause, context.Canceled)
	return &s, &host
}

// Most sessions are idle most of the time: then they hold nothing of what their requests needed.
func TestAnIdleSessionHoldsNothing(t *testing.T) {
	s, _ := open(t)
	require.Empty(t, s.outs)
	require.Empty(t, s.conns)
	require.Len(t, s.streams, 1)
	require.Equal(t, 1, cap(s.streams))
}

// The cause that the app gives for the end arrives where the session ends, and only there.
func TestTheCauseOfAnEnd(t *testing.T) {
	s, host := open(t)
	mine := errors.New("mine")
	s.End(core.Terminated, mine)
	require.Equal(t, core.Terminated, host.why)
	require.Equal(t, mine, host.ended)
	s.End(core.Terminated, errors.New("too late"))
	require.Equal(t, mine, host.ended)
	require.True(t, s.Over())
}

// A drain that looks between the record of an event and the end of its turn looks again, or it would wait for its deadline.
func TestADrainIsToldThatAnEventIsStored(t *testing.T) {
	s, _ := open(t)
	s.engine.Drain()
	atRest, over := make(chan struct{}, 1), make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-s.engine.Changed():
			case <-over:
				return
			}
			if s.IsStored() {
				select {
				case atRest <- struct{}{}:
				default:
				}
			}
		}
	}()
	for range 20_000 {
		select {
		case <-atRest: // of the time before
		default:
		}
		require.Equal(t, core.NoReason, s.Send(Message{Op: core.Emit, Data: []byte("{}")}))
		select {
		case <-atRest:
		case <-time.After(5 * time.Second):
			t.Fatal("an event is stored, and the drain was not told")
		}
	}
}
