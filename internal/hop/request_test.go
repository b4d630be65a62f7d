package hop

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// The request reaches the router of the owner as it came to that of this process, whatever the path looks like.
func TestTheTargetIsTheRequestURIAsItCame(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.RequestURI+" "+r.Host) }))
	defer server.Close()
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	for uri, want := range map[string]string{
		"/mcp": "/mcp", "/mcp/": "/mcp/", "/a%2Fb/mcp?x=1&y=%20": "/a%2Fb/mcp?x=1&y=%20", "/a%20b": "/a%20b", "/a|b[c]": "/a|b[c]", "/mcp?": "/mcp?",
		"/%C3%A4/mcp": "/%C3%A4/mcp", "//double//slash": "//double//slash", "/mcp?a=b?c=d": "/mcp?a=b?c=d", "/": "/",
		"http://elsewhere.example/mcp?x=1": "/mcp?x=1",
	} {
		r := httptest.NewRequest(http.MethodGet, "http://front.example/other", nil)
		r.RequestURI = uri
		got = nil
		q := Request{Request: r}
		res, err := http.DefaultTransport.RoundTrip(q.out(t.Context(), at, http.MethodGet, []string{"x"}))
		require.NoError(t, err, uri)
		require.NoError(t, res.Body.Close())
		require.Equal(t, []string{want + " front.example"}, got, uri)
	}
	r, err := http.NewRequest(http.MethodGet, "http://front.example/made%2Fhere?x=1", nil) // without a network
	require.NoError(t, err)
	require.Equal(t, "/made%2Fhere?x=1", target(at, r).RequestURI())
}

// Fields that are about one connection stay here, and those of the client travel.
func TestTheHeaderOfAForwardedRequest(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "http://front.example/mcp", nil)
	r.Header = http.Header{
		"Authorization": {"Bearer x"}, "Cookie": {"a=b"}, "Origin": {"http://o"}, "Mcp-Session-Id": {"S"}, "Accept": {"application/json"}, "X-Two": {"1", "2"},
		"Connection": {"close, X-Hop", "x-other"}, "X-Hop": {"1"}, "X-Other": {"1"}, "Keep-Alive": {"5"}, "Te": {"trailers"}, "Transfer-Encoding": {"chunked"},
		"Upgrade": {"h2c"}, "Expect": {"100-continue"}, "Content-Length": {"7"}, "Content-Encoding": {"gzip"}, "Accept-Encoding": {"gzip, br"},
		"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"l"}, Header: {"forged"}, "Content-Type": {"application/json"},
	}
	before := r.Header.Clone()
	q := Request{Request: r}
	require.Equal(t, http.Header{
		"Authorization": {"Bearer x"}, "Cookie": {"a=b"}, "Origin": {"http://o"}, "Mcp-Session-Id": {"S"}, "Accept": {"application/json"}, "X-Two": {"1", "2"},
		"Accept-Encoding": {"identity"}, "idempotency-key": {"k"}, "x-idempotency-key": {"l"}, Header: {"note"}, "Content-Type": {"application/json"},
	}, q.header([]string{"note"}))
	require.Equal(t, before, r.Header)
}

// HTTP/2 lets a path have spaces, which HTTP/1.1 cannot carry.
func TestATargetWithSpaces(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(Mark, "I")
		_, _ = w.Write([]byte(r.RequestURI))
	}))
	defer server.Close()
	q := post(t, nil)
	q.RequestURI = "/a b/mcp?x= y"
	require.Equal(t, "/a%20b/mcp?x=%20y", whole(t, forwarder(t, nil), Owner{server.URL, "I"}, q))
}
