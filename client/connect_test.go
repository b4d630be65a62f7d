package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/client"
)

// choosing is a server that chooses a version.
func choosing(version string) *script {
	return &script{initialize: func(w http.ResponseWriter, r *http.Request, h hit) {
		w.Header().Set("Mcp-Session-Id", "sid")
		answer(w, h, initialized(version))
	}}
}

func TestConnectTakesTheVersionThatTheServerChooses(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(version, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := choosing(version)
				s := connect(t, serve(t, server), client.Config{Name: "me", Version: "7", Capabilities: map[string]any{"roots": struct{}{}}})
				require.Equal(t, version, s.Version())
				require.Equal(t, "sid", s.ID())
				require.JSONEq(t, initialized(version), string(s.Server()))
				first := server.hits(http.MethodPost, "initialize")[0]
				require.Empty(t, first.version, "nothing is negotiated yet")
				require.Empty(t, first.session)
				require.Equal(t, "application/json, text/event-stream", first.header.Get("Accept"))
				require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
					"capabilities":{"roots":{}},"clientInfo":{"name":"me","version":"7"}}}`, first.body)
				second := server.hits(http.MethodPost, "notifications/initialized")
				require.Len(t, second, 1)
				require.Equal(t, version, second[0].version)
				require.Equal(t, "sid", second[0].session)
			})
		})
	}
}

func TestAVersionThatIsNotKnownIsAVersionError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := choosing("2024-11-05")
		_, err := client.Connect(t.Context(), address, client.Config{HTTP: serve(t, server)})
		var e *client.VersionError
		require.ErrorAs(t, err, &e)
		require.Equal(t, []string{"2024-11-05"}, e.Offered)
		require.ErrorContains(t, err, "2024-11-05")
		require.ErrorContains(t, err, "2025-11-25")
		require.Len(t, server.hits(http.MethodDelete, ""), 1, "the session that began is of no use")
		require.Empty(t, server.hits(http.MethodPost, "notifications/initialized"))
	})
}

// refusing is a server that answers initialize with a status and a body.
func refusing(status int, kind, body string) *script {
	return &script{initialize: func(w http.ResponseWriter, r *http.Request, h hit) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}}
}

func TestAModernServersRefusalNamesWhatItOffers(t *testing.T) {
	const sdk = `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`
	for name, server := range map[string]http.Handler{
		"-32022 with 400": refusing(400, "application/json", sdk),
		"-32022 with 200": refusing(200, "application/json", sdk),
		"on a stream":     refusing(200, "text/event-stream", "data: "+sdk+"\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, err := client.Connect(t.Context(), address, client.Config{HTTP: serve(t, server)})
				var e *client.VersionError
				require.ErrorAs(t, err, &e)
				require.Equal(t, []string{"2026-07-28"}, e.Offered)
				require.ErrorContains(t, err, "2026-07-28")
				var refusal *client.Error
				require.ErrorAs(t, err, &refusal, "what the server said is kept")
				require.Equal(t, -32022, refusal.Code)
			})
		})
	}
}

type modern struct{ rejoin.App }

func (modern) Modern() http.Handler { return http.NotFoundHandler() }

func TestRejoinWithoutLegacySessionsNamesWhatItOffers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app := modern{rejoin.NewToolApp(rejoin.Info{Name: "test", Version: "1"})}
		srv, err := rejoin.NewServer(app, rejoin.Config{Eras: rejoin.EraModern})
		require.NoError(t, err)
		t.Cleanup(srv.Close)
		_, err = client.Connect(t.Context(), address, client.Config{HTTP: serve(t, stdadapter.New(srv))})
		var e *client.VersionError
		require.ErrorAs(t, err, &e)
		require.Contains(t, e.Offered, "2026-07-28")
		require.ErrorContains(t, err, "2026-07-28")
	})
}

func TestAServerThatDoesNotKnowInitializeOffersAnotherVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, err := client.Connect(t.Context(), address, client.Config{HTTP: serve(t, refusing(404, "application/json",
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`))})
		var e *client.VersionError
		require.ErrorAs(t, err, &e)
		require.Empty(t, e.Offered)
		require.ErrorContains(t, err, "another protocol version")
		require.ErrorContains(t, err, "404 Not Found: JSON-RPC error -32601: Method not found")
	})
}

func TestARefusalOfConnectSaysItsStatus(t *testing.T) {
	for status, text := range map[int]string{
		400: "client: the server answered 400 Bad Request", 401: "client: the server answered 401 Unauthorized",
		404: "client: the server answered 404 Not Found", 503: "client: the server answered 503 Service Unavailable",
	} {
		bubble(t, func(t *testing.T) {
			server := refusing(status, "", "")
			_, err := client.Connect(t.Context(), address, client.Config{HTTP: serve(t, server)})
			var e *client.StatusError
			require.ErrorAs(t, err, &e)
			require.Equal(t, status, e.Status)
			require.EqualError(t, err, text)
			require.Empty(t, server.hits(http.MethodDelete, ""), "there is no session to end")
		})
	}
}

// A refusal about versions that lists one of ours is no matter of versions.
func TestARefusalThatListsOurVersionIsWhatItSays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, err := client.Connect(t.Context(), address, client.Config{HTTP: serve(t, refusing(400, "application/json",
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no","data":{"supported":["2025-11-25"]}}}`))})
		var e *client.VersionError
		require.NotErrorAs(t, err, &e)
		require.ErrorContains(t, err, "400 Bad Request: JSON-RPC error -32600: no")
	})
}

func TestAServerWithoutSessionsIsFine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			initialize: func(w http.ResponseWriter, r *http.Request, h hit) { answer(w, h, initialized("2025-11-25")) },
			post:       func(w http.ResponseWriter, r *http.Request, h hit, n int) { answer(w, h, `{"n":1}`) },
		}
		s := connect(t, serve(t, server), client.Config{})
		require.Empty(t, s.ID())
		var got struct{ N int }
		require.NoError(t, s.Do(t.Context(), "tools/call", nil, &got))
		require.Equal(t, 1, got.N)
		require.NoError(t, s.Close(t.Context()))
		require.Empty(t, server.hits(http.MethodDelete, ""), "there is nothing to end")
		for _, h := range server.hits(http.MethodPost, "") {
			require.NotContains(t, h.header, "Mcp-Session-Id")
		}
	})
}

func TestInitializeMayBeAnsweredOnAStreamThatBreaks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{
			initialize: func(w http.ResponseWriter, r *http.Request, h hit) {
				w.Header().Set("Mcp-Session-Id", "sid")
				stream(w, primer("a"))
			},
			get: func(w http.ResponseWriter, r *http.Request, h hit, n int) {
				stream(w, event("b", `{"jsonrpc":"2.0","id":1,"result":`+initialized("2025-06-18")+`}`))
			},
		}
		s := connect(t, serve(t, server), client.Config{})
		require.Equal(t, "2025-06-18", s.Version())
		poll := server.hits(http.MethodGet, "")[0]
		require.Equal(t, "sid", poll.session)
		require.Equal(t, "a", poll.cursor)
	})
}

func TestConnectEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &script{initialize: func(w http.ResponseWriter, r *http.Request, h hit) { <-r.Context().Done() }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := client.Connect(ctx, address, client.Config{HTTP: serve(t, server)})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun))
		require.Empty(t, server.hits(http.MethodPost, "notifications/cancelled"), "initialize is never cancelled")
	})
}

func TestConnectRefusesWhatCannotWork(t *testing.T) {
	for url, cfg := range map[string]client.Config{
		"ftp://rejoin.test/mcp": {}, "/mcp": {}, "http://": {}, "http://a b/": {},
		address + "?1": {HTTP: &http.Client{Timeout: time.Second}},
		address + "?2": {MaxEventBytes: -1},
		address + "?3": {Backoff: -1},
		address + "?4": {Backoff: 2, BackoffMax: 1},
	} {
		_, err := client.Connect(t.Context(), url, cfg)
		require.ErrorContains(t, err, "client: ", url)
	}
	_, err := client.Connect(t.Context(), address, client.Config{Capabilities: map[string]any{"f": func() {}}})
	var unsupported *json.UnsupportedTypeError
	require.ErrorAs(t, err, &unsupported)
}

func TestAllFaultsOfAConfigAreNamed(t *testing.T) {
	cfg := client.Config{HTTP: &http.Client{Timeout: time.Second}, MaxEventBytes: -1, Backoff: 2, BackoffMax: 1}
	_, err := client.Connect(t.Context(), "ftp://rejoin.test/mcp", cfg)
	for _, part := range []string{"ftp://rejoin.test/mcp", "Config.HTTP", "Config.MaxEventBytes", "Config.Backoff"} {
		require.ErrorContains(t, err, part)
	}
}
