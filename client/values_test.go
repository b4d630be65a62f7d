package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// A proxy may join the lines of a field of the answer, or send one twice. Equal values are one; different session ids are no answer.
func TestFieldsOfAnAnswerThatCameTwice(t *testing.T) {
	for name, test := range map[string]struct {
		lines []string
		want  string // the session's id; "": it is refused
	}{
		"one":                 {[]string{"sid"}, "sid"},
		"joined":              {[]string{"sid, sid"}, "sid"},
		"joined closely":      {[]string{"sid,sid,sid"}, "sid"},
		"in two lines":        {[]string{"sid", "sid"}, "sid"},
		"both":                {[]string{"sid, sid", "sid"}, "sid"},
		"with a comma in it":  {[]string{"a,b"}, "a,b"}, // of a server that makes such ids
		"that, twice":         {[]string{"a,b", "a,b"}, "a,b"},
		"different":           {[]string{"sid", "other"}, ""},
		"different and twice": {[]string{"sid, sid", "other"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &script{
					initialize: func(w http.ResponseWriter, _ *http.Request, h hit) {
						w.Header()["Mcp-Session-Id"] = test.lines
						w.Header()["Content-Type"] = []string{"application/json, application/json"}
						_, _ = fmt.Fprint(w, result(h, initialized("2025-11-25")))
					},
					post: func(w http.ResponseWriter, _ *http.Request, h hit, n int) {
						if n == 1 {
							w.Header()["Content-Type"] = []string{"text/event-stream", "text/event-stream"}
							_, _ = fmt.Fprint(w, "id: a\nretry: 1\ndata: \n\n")
							return
						}
						answer(w, h, `{"ok":true}`)
					},
					get: func(w http.ResponseWriter, _ *http.Request, _ hit, n int) {
						if n == 1 {
							w.Header().Set("Retry-After", "7, 7")
							w.WriteHeader(http.StatusServiceUnavailable)
							return
						}
						stream(w, "data: "+done+"\n\n")
					},
				}
				_, hc := serveOn(t, server)
				if test.want == "" {
					_, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
					require.ErrorIs(t, err, client.ErrProtocol)
					return
				}
				s, err := client.Connect(t.Context(), address, client.Config{HTTP: hc})
				require.NoError(t, err)
				require.NoError(t, start(t, s).Wait(t.Context(), nil))
				require.Equal(t, test.want, server.hits("GET", "")[0].session)
				require.GreaterOrEqual(t, server.gaps()[1], 7*time.Second)
				require.NoError(t, s.Close(t.Context()))
			})
		})
	}
}

// A response is to the request whose id it has by value, and a question is answered with the id as the server spelt it, and withdrawn by
// whatever spelling of it.
func TestIDsOfTheServerAreComparedByValue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked, ended := make(chan struct{}, 2), make(chan error, 2)
		server := &script{post: func(w http.ResponseWriter, _ *http.Request, h hit, _ int) {
			stream(w, "id: a\ndata: "+`{"jsonrpc":"2.0","id":"\u0061","method":"elicitation/create","params":{}}`+"\n\n")
			stream(w, "id: b\ndata: "+`{"jsonrpc":"2.0","id":7.0,"method":"ping"}`+"\n\n")
			<-asked
			stream(w, "id: c\ndata: "+`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`+"\n\n")
			<-time.After(time.Second)
			stream(w, "id: d\ndata: "+`{"jsonrpc":"2.0","id":`+h.id+`.0,"result":{"ok":true}}`+"\n\n")
		}}
		_, hc := serveOn(t, server)
		s := connect(t, hc, client.Config{OnRequest: func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
			asked <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}})
		require.NoError(t, start(t, s).Wait(t.Context(), nil))
		require.Len(t, ended, 1)
		synctest.Wait()
		var answers []string
		for _, h := range server.hits("POST", "") {
			if h.method == "" {
				answers = append(answers, h.body)
			}
		}
		require.Equal(t, []string{`{"jsonrpc":"2.0","id":7.0,"result":{}}`}, answers)
	})
}

// A byte order mark before a stream, or before JSON, is passed over (WHATWG, event streams; RFC 8259, 8.1).
func TestAByteOrderMarkIsPassedOver(t *testing.T) {
	const bom = "\ufeff"
	bubble(t, func(t *testing.T) {
		server := &script{
			initialize: func(w http.ResponseWriter, _ *http.Request, h hit) {
				w.Header().Set("Mcp-Session-Id", "sid")
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, bom+result(h, initialized("2025-11-25")))
			},
			post: func(w http.ResponseWriter, _ *http.Request, _ hit, _ int) {
				stream(w, bom+"id: a\nretry: 1\ndata: \n\n")
			},
			get: func(w http.ResponseWriter, _ *http.Request, _ hit, _ int) { stream(w, bom+"data: "+done+"\n\n") },
		}
		_, hc := serveOn(t, server)
		s := connect(t, hc, client.Config{})
		require.NoError(t, start(t, s).Wait(t.Context(), nil))
		require.Equal(t, "a", server.hits("GET", "")[0].cursor)
	})
}
