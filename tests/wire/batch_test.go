package wire_test

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// batchOfTwo starts a batch of two requests. Its head is sent only when that is necessary.
func batchOfTwo(t *testing.T, mode rejoin.Mode) (*rowWorld, *kit.Response, [2]*kit.ManualTool) {
	t.Helper()
	w := newWorld(t, rejointest.Config{Version: kit.Batches, Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{Mode: mode, StreamAfter: -1}}})
	_, tool := w.call()
	id := tool.Session().ID()
	tool.Returns("done")
	r := w.request(http.MethodPost, "["+kit.CallBody(`"a"`, "{}")+","+kit.CallBody(`"b"`, "{}")+"]")
	r.Header.Set("Mcp-Session-Id", id)
	res := kit.Serve(w.c.Server(), r)
	tools := [2]*kit.ManualTool{w.next(), w.next()}
	require.Equal(t, "open", res.Summary())
	return w, res, tools
}

func (w *rowWorld) cancels(id string) {
	w.t.Helper()
	w.c.Notify("notifications/cancelled", map[string]any{"requestId": id})
}

// cancelOne cancels one of the two requests, and returns the tool of the other one.
func (w *rowWorld) cancelOne(tools [2]*kit.ManualTool) *kit.ManualTool {
	w.t.Helper()
	w.cancels("a")
	if tools[0].Cause() == nil {
		return tools[0]
	}
	return tools[1]
}

var batchIDs = regexp.MustCompile(`(?m)^id: (\S+)$`)

// What becomes of the stream of a batch when one of its requests is answered or cancelled, in each state of the stream.
var batchRows = []row{
	{"undecided: a response is held until the last is there, and the answer is one array", func(t *testing.T) {
		for _, mode := range []rejoin.Mode{rejoin.ModeAuto, rejoin.ModeJSON} {
			_, res, tools := batchOfTwo(t, mode)
			tools[1].Returns("done")
			require.Equal(t, "open", res.Summary())
			tools[0].Returns("done")
			require.Equal(t, "200 [result result] ended", res.Summary())
			kit.RequireHead(t, res.Head, "Content-Type", "application/json")
		}
	}},
	{"undecided: a response that was held is given back when a stream is decided on", func(t *testing.T) {
		_, res, tools := batchOfTwo(t, rejoin.ModeAuto)
		tools[0].Returns("done")
		require.NoError(t, tools[1].Notify("notifications/message", nil))
		require.Equal(t, "200 sse comment 1:message 2:result open", res.Summary())
		kit.RequireHead(t, res.Head, kit.StreamHead...)
		tools[1].Returns("done")
		require.Equal(t, "200 sse comment 1:message 2:result 3:result ended", res.Summary())
	}},
	{"attached: a response is written when it comes, and the last one ends the stream", func(t *testing.T) {
		_, res, tools := batchOfTwo(t, rejoin.ModeAuto)
		require.NoError(t, tools[0].Notify("notifications/message", nil))
		tools[0].Returns("done")
		require.Equal(t, "200 sse comment 1:message 2:result open", res.Summary())
		tools[1].Returns("done")
		require.Equal(t, "200 sse comment 1:message 2:result 3:result ended", res.Summary())
	}},
	{"none reads: each response is recorded, and a resume brings them", func(t *testing.T) {
		w, res, tools := batchOfTwo(t, rejoin.ModeAuto)
		require.NoError(t, tools[0].Notify("notifications/message", nil))
		require.Equal(t, "200 sse comment 1:message open", res.Summary())
		cursor := batchIDs.FindStringSubmatch(res.Body.String())[1]
		require.Equal(t, "comment", w.streams(w.cursor(cursor)), "it takes over, and is cut")
		require.Equal(t, "200 sse comment 1:message ended", res.Summary())
		tools[1].Returns("done")
		require.Equal(t, "comment 2:result", w.streams(w.cursor(cursor)))
		tools[0].Returns("done")
		body, end := kit.ReadAll(t, w.c.Do(w.cursor(cursor)))
		kit.RequireStream(t, end)
		require.Equal(t, "comment 2:result 3:result", kit.EventsSummary(body))
		ids := batchIDs.FindAllStringSubmatch(body, -1)
		w.accepts(w.cursor(ids[len(ids)-1][1]), http.StatusNoContent, "Content-Type", "text/event-stream")
	}},
	{"undecided: the answer has no response to a request that was cancelled", func(t *testing.T) {
		w, res, tools := batchOfTwo(t, rejoin.ModeAuto)
		w.cancelOne(tools).Returns("done")
		require.Equal(t, "200 [result] ended", res.Summary())
		w, res, tools = batchOfTwo(t, rejoin.ModeAuto)
		tools[1].Returns("done") // held back
		w.cancels("a")
		w.cancels("b")
		require.Equal(t, "200 [result] ended", res.Summary(), "the one that was answered is not cancelled any more")
	}},
	{"attached: a request that was cancelled has no response, and the other ends the stream", func(t *testing.T) {
		w, res, tools := batchOfTwo(t, rejoin.ModeAuto)
		require.NoError(t, tools[0].Notify("notifications/message", nil))
		w.cancelOne(tools).Returns("done")
		require.Equal(t, "200 sse comment 1:message 2:result ended", res.Summary())
	}},
	{"where all requests of a batch are cancelled, the answer is empty", func(t *testing.T) {
		for mode, want := range map[rejoin.Mode]string{rejoin.ModeAuto: "200 sse ended", rejoin.ModeJSON: "202 ended"} {
			w, res, _ := batchOfTwo(t, mode)
			w.cancels("a")
			require.Equal(t, "open", res.Summary())
			w.cancels("b")
			require.Equal(t, want, res.Summary())
			require.Empty(t, res.Body.String())
			require.EqualValues(t, 1, w.c.Server().Stats().Streams)
			w.lives()
		}
	}},
	{"the end of the session refuses a batch that is undecided, with a null id", func(t *testing.T) {
		w, res, tools := batchOfTwo(t, rejoin.ModeAuto)
		w.c.Delete()
		require.Equal(t, "404 error(-32001,null) ended", res.Summary())
		kit.RequireHead(t, res.Head, "Content-Type", "application/json")
		for _, tool := range tools {
			require.ErrorIs(t, tool.Cause(), rejoin.ErrSessionEnded)
		}
	}},
}
