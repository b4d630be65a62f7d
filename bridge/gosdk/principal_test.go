package gosdk

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// Only its user can use a session. Tokens without a user id count as different users.
func TestASessionIsItsTokensOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv, err := rejoin.NewServer(New(newServer(nil, nil)), rejoin.Config{Principal: Principal})
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
			user, _, _ := strings.Cut(token, "/")
			return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour)}, nil
		}
		secure := auth.RequireBearerToken(verify, nil)
		h := secure(stdadapter.New(srv))
		stripped := secure(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Authorization")
			stdadapter.New(srv).ServeHTTP(w, r)
		}))
		send := func(h http.Handler, token, session, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		open := func(h http.Handler, token string) string {
			return send(h, token, "", initialize).Header().Get("Mcp-Session-Id")
		}
		for _, test := range []struct {
			owner, other string
			want         int
		}{
			{"ann/1", "ann/2", http.StatusOK}, // refreshed
			{"ann/1", "bob/1", http.StatusNotFound},
			{"/1", "/1", http.StatusOK},
			{"/1", "/2", http.StatusNotFound}, // neither has a user id
			{"/1", "ann/1", http.StatusNotFound},
		} {
			session := open(h, test.owner)
			if got := send(h, test.other, session, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).Code; got != test.want || session == "" {
				t.Errorf("the session of %s is %d to %s", test.owner, got, test.other)
			}
		}
		session := open(stripped, "/1")
		if got := send(stripped, "/1", session, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).Code; got != http.StatusNotFound || session == "" {
			t.Errorf("without a user id and a token: %d", got)
		}
		plain := stdadapter.New(srv)
		if got := send(plain, "", open(plain, ""), `{"jsonrpc":"2.0","id":1,"method":"ping"}`).Code; got != http.StatusOK {
			t.Errorf("without the middleware: %d", got)
		}
		for s := range srv.Sessions() {
			if strings.Contains(s.Principal, "Bearer") || strings.Contains(s.Principal, "/1") {
				t.Error("the token itself names the user")
			}
		}
	})
}
