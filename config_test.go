package rejoin

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func noApp() App {
	return NewApp(Info{Name: "none"}, func(context.Context, *Request) (any, error) { return nil, nil })
}

func TestConfigDefaults(t *testing.T) {
	s, err := NewServer(noApp(), Config{})
	require.NoError(t, err)
	c := s.cfg
	require.Equal(t, 15*time.Second, c.KeepAlive)
	require.Equal(t, 30*time.Minute, c.SessionIdleTTL)
	require.Equal(t, 30*time.Second, c.WriteTimeout)
	require.Equal(t, 5*time.Second, c.StoreTimeout)
	require.Equal(t, int64(4<<20), c.MaxBodyBytes)
	require.Equal(t, 10_000, c.MaxSessions)
	require.Equal(t, 64, c.MaxConcurrent)
	require.NotEmpty(t, c.Node)
	p := c.Policy.core()
	require.Equal(t, 100*time.Millisecond, p.StreamAfter)
	require.Equal(t, time.Second, p.Retry)
	require.Equal(t, 30*time.Second, p.RetryMax)
	require.Equal(t, 10*time.Minute, p.AbandonAfter)
	require.Equal(t, 5*time.Minute, p.Retain)
	require.Zero(t, p.CloseAfter)
	require.Zero(t, p.MaxRuntime)
	require.Equal(t, time.Millisecond, Policy{Mode: SSE}.core().StreamAfter)
}

// All that is wrong is named at once, and by its name.
func TestConfigContradictions(t *testing.T) {
	_, err := NewServer(noApp(), Config{
		KeepAlive: time.Nanosecond, Node: "a b", Eras: Both, AllowedOrigins: []string{"app.example"},
		Policy: Policy{Mode: JSON, CloseAfter: time.Second, Retry: time.Minute, RetryMax: time.Second},
	})
	require.Error(t, err)
	for _, name := range []string{"KeepAlive", "Node", "Eras", "AllowedOrigins", "RetryMax", "CloseAfter"} {
		require.Contains(t, err.Error(), name)
	}
	for _, p := range []Policy{{Retry: -1}, {Retry: time.Microsecond}, {Retry: 2 * time.Hour}, {Mode: 9}} {
		_, err := NewServer(noApp(), Config{Policy: p})
		require.Error(t, err, "%+v", p)
		require.Equal(t, 1, strings.Count(err.Error(), "Policy."), err.Error())
	}
	_, err = NewServer(nil, Config{})
	require.ErrorContains(t, err, "App")
}
