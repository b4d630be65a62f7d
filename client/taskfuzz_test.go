package client_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// FuzzTask makes a task of a call, and answers each poll, update and cancel with whatever result. The client ends at the latest with its context,
// and takes no answer for the result of the call but that of a task that is completed.
func FuzzTask(f *testing.F) {
	const ending = 20 * time.Second // of the context: longer, and a server that works for ever makes each run slow
	for _, seed := range []string{
		"", "{}", "null", "[]", completed(), state("complete", "working", ""), state("complete", "cancelled", ""), state("complete", "paused", ""),
		state("complete", "failed", `"error":{"code":-1,"message":"no"}`), state("complete", "failed", `"error":7`), `{"taskId":"t2","status":"working"}`,
		state("complete", "input_required", questions("elicitation/create", "a", "b")), state("complete", "input_required", questions("x", "")),
		state("complete", "working", `"statusMessage":"a\u0000b","pollIntervalMs":1e-300`), `{"taskId":"t1","status":"completed","result":{"resultType":"task"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		synctest.Test(t, func(t *testing.T) {
			_, hc := talking(t, func(c net.Conn) { talkTask(c, result) })
			s, err := client.Connect(t.Context(), address, client.Config{
				HTTP: hc, Era: client.EraModern, MaxEventBytes: 64 * kilobyte, Attempts: 4, Logger: slog.New(slog.DiscardHandler),
				OnRequest: func(context.Context, string, json.RawMessage) (any, error) { return struct{}{}, nil },
			})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), ending)
			defer cancel()
			begun := time.Now()
			call, err := s.Start(ctx, "tools/call", map[string]any{"name": "x"})
			require.NoError(t, err)
			var got json.RawMessage
			if err = call.Wait(context.Background(), &got); err == nil {
				var task struct{ Status string }
				require.NoError(t, json.Unmarshal(result, &task))
				require.Equal(t, "completed", task.Status)
				require.Contains(t, string(result), string(got))
			}
			require.LessOrEqual(t, time.Since(begun), ending+2*time.Second)
			if token := call.Token(); token != "" { // what Token makes, Resume takes
				again, err := client.Resume(t.Context(), address, token, client.Config{HTTP: hc})
				require.NoError(t, err)
				require.Equal(t, token, again.Leave())
			}
			_ = s.Close(ctx)
		})
	})
}

// talkTask answers as a server of the modern era does, but for the results of tasks/….
func talkTask(c net.Conn, result []byte) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	text, _ := io.ReadAll(r.Body)
	var m struct{ ID json.RawMessage }
	_ = json.Unmarshal(text, &m)
	switch {
	case bytes.Contains(text, []byte(`"server/discover"`)):
		result = []byte(withTasks)
	case bytes.Contains(text, []byte(`"tools/call"`)):
		result = []byte(state("task", "working", ""))
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"+
		`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+string(result)+`}`)
}
