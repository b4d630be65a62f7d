package faithful

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const call = `{"jsonrpc":"2.0", "id" : %s ,"method":"x","params":{"a":[1],"_meta":{"b":2,"progressToken":%s}}}`

// roundingHandler answers as SDKs do: it decodes id and token into any, and encodes them again.
func roundingHandler(t *testing.T, head string, write func(w http.ResponseWriter, message string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.EqualValues(t, len(body), r.ContentLength)
		var m struct {
			ID     any
			Params struct {
				Meta struct{ ProgressToken any } `json:"_meta"`
			}
		}
		assert.NoError(t, json.Unmarshal(body, &m), "%s", body)
		id, err := json.Marshal(m.ID)
		assert.NoError(t, err)
		token, err := json.Marshal(m.Params.Meta.ProgressToken)
		assert.NoError(t, err)
		w.Header().Set("Content-Type", head)
		write(w, fmt.Sprintf(`{"progressToken":%s}`, token))
		write(w, fmt.Sprintf(`{"id":%s,"result":{"text":"a \"id\": \"rejoin-\""}}`, id))
	})
}

func serve(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Handler(h).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	return w
}

// Ids and tokens come back as they were spelt, also if the handler writes them in pieces.
func TestIDsAndTokensComeBackAsTheyWereSpelt(t *testing.T) {
	own := []string{
		`1`, `"a"`, `9007199254740993`, `-9223372036854775809`, `1.5`, `2.0`, `1e3`, `-0`, `"\u0061"`, `"<&>"`, `"ü\ud83d\ude00\/"`, `1e400`,
		`123456789012345678901234567890`, `""`,
	}
	for _, id := range own {
		for _, token := range own {
			for size := range 5 {
				h := roundingHandler(t, "text/event-stream", func(w http.ResponseWriter, message string) {
					for event := "data: " + message + "\n\n"; event != ""; {
						n := len(event)
						if size > 0 {
							n = min(n, 1<<(2*(size-1)))
						}
						written, err := io.WriteString(w, event[:n])
						require.NoError(t, err)
						require.Equal(t, n, written)
						w.(http.Flusher).Flush()
						event = event[n:]
					}
				})
				want := `data: {"progressToken":` + token + "}\n\n" + `data: {"id":` + id + `,"result":{"text":"a \"id\": \"rejoin-\""}}` + "\n\n"
				w := serve(h, fmt.Sprintf(call, id, token))
				require.Equal(t, want, w.Body.String())
				require.Equal(t, http.StatusOK, w.Code)
				require.True(t, w.Flushed)
			}
		}
	}
}

// If ids and tokens come back unchanged anyway, the request and the response are not changed.
func TestWhatNeedsNothingPassesAsItIs(t *testing.T) {
	for _, body := range []string{
		fmt.Sprintf(call, `1`, `"t"`), fmt.Sprintf(call, `"x"`, `2`), `[` + fmt.Sprintf(call, `1.5`, `2`) + `]`,
		`{"jsonrpc":"2.0","method":"x","params":{"id":1.5}}`,
		`{"jsonrpc":"2.0","id":1.5,"result":{}}`, `no JSON`, ``,
	} {
		serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.Equal(t, body, string(got))
			w.Header().Set("Content-Length", "2")
			w.WriteHeader(http.StatusOK)
		}), body)
	}
	w := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "12")
		_, _ = io.WriteString(w, `{"id":1.5}  `)
	}), fmt.Sprintf(call, `1.5`, `2`))
	require.Empty(t, w.Header().Get("Content-Length"), "the client's value has another length")
}

// The SDK gets null in place of an invalid token.
func TestWhatIsNoTokenIsNull(t *testing.T) {
	write := func(w http.ResponseWriter, message string) { _, _ = io.WriteString(w, message) }
	for _, token := range []string{
		`null`, `true`, `{}`, `[1]`, `"` + strings.Repeat("x\u00fc", 600) + `"`, strings.Repeat("1", 1025), `"` + strings.Repeat("x", 1023) + `"`,
	} {
		w := serve(roundingHandler(t, "application/json", write), fmt.Sprintf(call, `1`, token))
		require.Contains(t, w.Body.String(), `{"progressToken":null}`, token)
	}
}

// A refusal in text/plain becomes a JSON-RPC error with the request's id. Status and header stay the same.
func TestRefusalsAreJSON(t *testing.T) {
	for _, test := range []struct {
		body   string
		status int
		text   string
		want   string
	}{
		{fmt.Sprintf(call, `1.50`, `1`), 400, "no \"such\" version\n", `{"jsonrpc":"2.0","id":1.50,"error":{"code":-32600,"message":"no \"such\" version"}}`},
		{fmt.Sprintf(call, `"a"`, `1`), 405, "", `{"jsonrpc":"2.0","id":"a","error":{"code":-32600,"message":"Method Not Allowed"}}`},
		{`{"jsonrpc":"2.0","method":"x"}`, 404, "gone", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"gone"}}`},
		{`[1]`, 400, "a batch", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a batch"}}`},
		{fmt.Sprintf(call, `7`, `1`), 500, "broken", `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"broken"}}`},
		{
			fmt.Sprintf(call, `7`, `1`), 503, strings.Repeat("x", 1<<20),
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"` + strings.Repeat("x", 4<<10) + `"}}`,
		},
	} {
		w := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", "POST")
			http.Error(w, test.text, test.status)
			w.(http.Flusher).Flush()
		}), test.body)
		require.Equal(t, test.want, w.Body.String())
		require.Equal(t, test.status, w.Code)
		require.Equal(t, http.Header{"Allow": {"POST"}, "Content-Type": {"application/json"}}, w.Header())
	}
	for _, kind := range []string{"application/json", "text/event-stream", "text/html", ""} {
		w := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "as it is")
		}), fmt.Sprintf(call, `1`, `1`))
		require.Equal(t, "400 as it is", fmt.Sprint(w.Code, " ", w.Body), kind)
	}
	w := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "as it is")
	}), fmt.Sprintf(call, `1`, `1`))
	require.Equal(t, "200 as it is", fmt.Sprint(w.Code, " ", w.Body), "no refusal")
}

// If the writer cannot flush, the handler gets no Flusher.
func TestOnlyAWriterThatFlushesFlushes(t *testing.T) {
	rec := httptest.NewRecorder()
	Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, can := w.(http.Flusher)
		assert.False(t, can)
	})).ServeHTTP(struct{ http.ResponseWriter }{rec}, httptest.NewRequest(http.MethodPost, "/", http.NoBody))
}
