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
	require.Equal(t, time.Millisecond, Policy{Mode: ModeSSE}.core().StreamAfter)
}

// All mistakes are returned at once, each with the name of its field.
func TestConfigContradictions(t *testing.T) {
	_, err := NewServer(struct{ App }{noApp()}, Config{ // which is not a ModernApp
		KeepAlive: time.Nanosecond, Node: "a b", Eras: EraBoth, AllowedOrigins: []string{"app.example"},
		Policy: Policy{Mode: ModeJSON, CloseAfter: time.Second, Retry: time.Minute, RetryMax: time.Second},
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

// An entry that can never match is a mistake, and NewServer returns it: without that, the refusal of a page would be hard to explain.
func TestListsThatCouldNeverMatch(t *testing.T) {
	for _, host := range []string{"", ".", "https://api.example", "api.example/mcp", "*.example", "*", "a b", "user@api.example", "api.example:http", ":80"} {
		_, err := NewServer(noApp(), Config{AllowedHosts: []string{"ok.example", host}})
		require.ErrorContains(t, err, "AllowedHosts", host)
	}
	for _, o := range []string{
		"", "*", "null", "app.example", "//app.example", "https://", "https://*.example", "https://app.example/", "https://u@app.example",
		"https://app.example?", "https://app.example#x", "https://app.example:https", "https://:443", "mailto:app",
	} {
		_, err := NewServer(noApp(), Config{AllowedOrigins: []string{"https://ok.example", o}})
		require.ErrorContains(t, err, "AllowedOrigins", o)
	}
	_, err := NewServer(noApp(), Config{
		AllowedHosts: []string{
			"api.example", "api.example:8080", "API.example.", "10.0.0.1", "10.0.0.1:80", "::1", "2001:db8::abcd", "[2001:db8::1]", "[::1]:80", "inner",
		},
		AllowedOrigins: []string{"https://app.example", "http://localhost:3000", "http://[::1]:3000", "app://desktop", "HTTPS://App.example:443"},
	})
	require.NoError(t, err)
}
