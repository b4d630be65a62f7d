package rejointest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

func TestServerAsksAClientThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := rejointest.New(t, tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			if err := h.CloseStream(time.Minute); err != nil {
				return nil, err
			}
			var answer struct{ Action string }
			err := h.Ask(ctx, "elicitation/create", map[string]string{"message": "sure?"}, &answer)
			return answer.Action, err
		}), rejointest.Config{OnRequest: func(method string, params json.RawMessage) (any, error) {
			asked++
			if method != "elicitation/create" || !strings.Contains(string(params), "sure?") {
				return nil, errors.New("unexpected: " + method)
			}
			return map[string]string{"action": "accept"}, nil
		}})
		call := c.CallTool("ask", nil)
		call.WaitClosed()
		elapse(time.Minute)
		synctest.Wait()
		require.Zero(t, asked, "it is away")
		cursor := call.IDs()[0]
		call.Poll()
		require.Equal(t, 1, asked)
		require.JSONEq(t, `"accept"`, string(call.Result()))
		call.PollFrom(cursor)
		require.Len(t, call.Messages(), 2, "the question and the response were replayed, as they were")
		require.Equal(t, 1, asked, "a question that is replayed is not answered again")
	})
}

func TestQuestionThatTwoConnectionsBring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := rejointest.New(t, tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			answer := make(chan json.RawMessage, 1)
			h.Session().AskFunc(context.Background(), "roots/list", nil, func(raw json.RawMessage, _ error) { answer <- raw })
			return <-answer, nil
		}), rejointest.Config{OnRequest: func(string, json.RawMessage) (any, error) {
			asked++
			elapse(time.Minute) // it may
			return map[string]any{"roots": []any{}}, nil
		}})
		listen := c.Listen()
		call := c.CallTool("ask", nil)
		require.Len(t, listen.Messages(), 1)
		again := c.Listen()
		again.PollFrom(listen.IDs()[0])
		require.Len(t, again.Messages(), 1)
		require.JSONEq(t, `{"roots":[]}`, string(call.Result()))
		require.Equal(t, 1, asked)
	})
}

func TestErrorsOfTheClient(t *testing.T) {
	offers := map[string]any{"roots": struct{}{}}
	synctest.Test(t, func(t *testing.T) {
		ask := tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			return nil, h.Ask(ctx, "roots/list", nil, nil)
		})
		for name, test := range map[string]struct {
			answer func(string, json.RawMessage) (any, error)
			code   int
			text   string
		}{
			"default": {nil, rejoin.CodeMethodNotFound, "does not answer roots/list"},
			"own":     {func(string, json.RawMessage) (any, error) { return nil, rejoin.Errorf(-1, "no") }, -1, "no"},
			"other":   {func(string, json.RawMessage) (any, error) { return nil, io.EOF }, rejoin.CodeInternal, "EOF"},
		} {
			e := rejointest.New(t, ask, rejointest.Config{OnRequest: test.answer, Capabilities: offers}).CallTool("ask", nil).Err()
			require.Equal(t, test.code, e.Code, name)
			require.Contains(t, e.Message, test.text, name)
		}
	})
}

func TestHandlerPathAndHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		c := rejointest.New(t, tool(func(ctx context.Context, _ *rejoin.Handle) (any, error) {
			return stdadapter.PathValue(ctx, "tenant"), nil
		}), rejointest.Config{
			Path:   "/t/acme/mcp",
			Header: http.Header{"authorization": {"Bearer x"}},
			Handler: func(s *rejoin.Server) http.Handler {
				mux := http.NewServeMux()
				stdadapter.Register(mux, "/t/{tenant}/mcp", s)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen = append(seen, r.Method+" "+r.Header.Get("Authorization")+" "+r.RemoteAddr[:10])
					mux.ServeHTTP(w, r)
				})
			},
		})
		require.JSONEq(t, `"acme"`, string(c.CallTool("x", nil).Result()))
		c.Delete()
		require.Equal(t, []string{
			"POST Bearer x 192.0.2.2:", "POST Bearer x 192.0.2.2:", "POST Bearer x 192.0.2.2:", "DELETE Bearer x 192.0.2.2:",
		}, seen)
	})
}

func TestVersionHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for version, want := range map[string][]string{
			"":           {"", "2025-11-25"},
			"2025-06-18": {"", "2025-06-18"},
			"2025-03-26": {"", ""},
			"2024-11-05": {"", ""},
		} {
			var seen []string
			rejointest.New(t, tool(nil), rejointest.Config{Version: version, Handler: func(s *rejoin.Server) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen = append(seen, r.Header.Get("MCP-Protocol-Version"))
					s.Serve(w, r)
				})
			}})
			require.Equal(t, want, seen, version)
		}
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, tool(nil), rejointest.Config{})
		do := func(session ...string) int {
			req, err := http.NewRequest(http.MethodPost, "", bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":"x","method":"ping"}`)))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			if session != nil {
				req.Header["Mcp-Session-Id"] = session
			}
			res := c.Do(req)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Regexp(t, `"id":("x"|null)`, string(body))
			return res.StatusCode
		}
		require.Equal(t, http.StatusOK, do(), "the session's id is filled in")
		require.Equal(t, http.StatusNotFound, do("another"))
		require.Equal(t, http.StatusBadRequest, do([]string{}...), "no value, no field")

		req, err := http.NewRequest(http.MethodGet, "", nil)
		require.NoError(t, err)
		req.Header.Set("Accept", "text/event-stream")
		res := c.Do(req)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.EqualValues(t, 1, c.Server().Stats().Connections, "it is left open, and ends with the test")
	})
}

// What the server keeps for later use must not tie it to the bubble in which it was made.
func TestBubblesAtTheSameTime(t *testing.T) {
	t.Parallel()
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 5 {
				synctest.Test(t, func(t *testing.T) {
					c := rejointest.New(t, app(), rejointest.Config{})
					c.CallTool("export", nil).Result()
				})
			}
		})
	}
}
