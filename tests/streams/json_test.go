package streams_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// prettyStore returns events with other white space, as a database may that stores them as JSON.
type prettyStore struct {
	eventstore.Store
	lineEnd string
}

func (s prettyStore) Log(k eventstore.Key) eventstore.Log {
	return prettyLog{s.Store.Log(k), s.lineEnd}
}

type prettyLog struct {
	eventstore.Log
	lineEnd string
}

func (l prettyLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	n, st, err := l.Log.Read(ctx, after, buf, maxBytes)
	for i := range buf[:n] {
		buf[i].Data = pretty(buf[i].Data, l.lineEnd)
	}
	return n, st, err
}

func pretty(data []byte, lineEnd string) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		panic(err)
	}
	return []byte(strings.ReplaceAll(b.String(), "\n", lineEnd))
}

// Text that would forge fields of an event, or end it, if it were written unescaped. Outside of JSON strings only the last one is possible.
const (
	forged   = "a\nid: forged\ndata: x\n\nevent: y\rretry: 1\r\n\r\n: \u2028\u2029\ufeff"
	forging  = "{\n\"text\":\r\"x\"\r\n,\n\n\"n\": [\r\r1]}"
	forgedOK = `{"text":"x","n":[1]}`
)

// However an app formats its JSON, and a store changes that, a message is one event with its one id, and has the same value.
func TestWhiteSpaceInJSONMakesNoSecondEvent(t *testing.T) {
	for name, store := range map[string]func() eventstore.Store{
		"as it was": func() eventstore.Store { return eventstore.NewMemory(eventstore.MemoryConfig{}) },
		"LF":        func() eventstore.Store { return prettyStore{eventstore.NewMemory(eventstore.MemoryConfig{}), "\n"} },
		"CR":        func() eventstore.Store { return prettyStore{eventstore.NewMemory(eventstore.MemoryConfig{}), "\r"} },
		"CRLF":      func() eventstore.Store { return prettyStore{eventstore.NewMemory(eventstore.MemoryConfig{}), "\r\n"} },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
					if c.Method() != "tools/call" {
						kit.Accept(c)
						return
					}
					h := c.Handle()
					_ = h.Notify("notifications/x", json.RawMessage(forging))
					_ = h.Notify("notifications/x", map[string]string{"text": forged})
					_ = h.Session().Notify(context.Background(), "notifications/x", json.RawMessage(forging))
					_ = c.Reply(json.RawMessage(forging))
				}}
				c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store()}})
				listen := c.Listen()
				call := c.CallTool("x", nil)
				first := call.IDs()[0]
				for range 2 {
					require.JSONEq(t, forgedOK, string(call.Result()))
					messages := call.Messages()
					require.Len(t, messages, 3)
					require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/x","params":`+forgedOK+`}`, string(messages[0]))
					var m struct{ Params struct{ Text string } }
					require.NoError(t, json.Unmarshal(messages[1], &m))
					require.Equal(t, forged, m.Params.Text)
					for _, id := range call.IDs() {
						require.Regexp(t, kit.EventID, id)
					}
					call.PollFrom(first)
				}
				require.Len(t, listen.Messages(), 1)
				require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/x","params":`+forgedOK+`}`, string(listen.Messages()[0]))

				body, res := kit.Post(t, c, `{"jsonrpc":"2.0","id":"plain","method":"tools/call"}`, "Accept", "application/json")
				require.Equal(t, http.StatusOK, res.StatusCode)
				require.JSONEq(t, `{"jsonrpc":"2.0","id":"plain","result":`+forgedOK+`}`, body)
			})
		})
	}
}
