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

// batchOfTwo is a batch of two requests that run. No head is sent before something has to be.
func batchOfTwo(t *testing.T, mode rejoin.Mode) (*rowWorld, *kit.Response, [2]*kit.Puppet) {
	t.Helper()
	w := newWorld(t, rejointest.Config{Version: kit.Batches, Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{Mode: mode, StreamAfter: -1}}})
	_, tool := w.call()
	id := tool.Session().ID()
	tool.Returns("done")
	r := w.request(http.MethodPost, "["+kit.CallBody(`"a"`, "{}")+","+kit.CallBody(`"b"`, "{}")+"]")
	r.Header.Set("Mcp-Session-Id", id)
	res := kit.Serve(w.c.Server(), r)
	tools := [2]*kit.Puppet{w.next(), w.next()}
	require.Equal(t, "open", res.Story())
	return w, res, tools
}

func (w *rowWorld) cancels(id string) {
	w.t.Helper()
	w.c.Notify("notifications/cancelled", map[string]any{"requestId": id})
}

// cancelOne cancels one of two requests, and returns the tool of the other.
func (w *rowWorld) cancelOne(tools [2]*kit.Puppet) *kit.Puppet {
	w.t.Helper()
	w.cancels("a")
	if tools[0].Cause() == nil {
		return tools[0]
	}
	return tools[1]
}

var batchIDs = regexp.MustCompile(`(?m)^id: (\S+)$`)

// What becomes of the stream of a batch when one of its requests is answered, or cancelled, in each state that the stream can be in.
var batchRows = []row{
	{"undecided: a response is held until the last is there, and the answer is one array", func(t *testing.T) {
		for _, mode := range []rejoin.Mode{rejoin.Auto, rejoin.JSON} {
			_, res, tools := batchOfTwo(t, mode)
			tools[1].Returns("done")
			require.Equal(t, "open", res.Story())
			tools[0].Returns("done")
			require.Equal(t, "200 [result result] ended", res.Story())
			kit.RequireHead(t, res.Head, "Content-Type", "application/json")
		}
	}},
	{"undecided: a response that was held is given back when a stream is decided on", func(t *testing.T) {
		_, res, tools := batchOfTwo(t, rejoin.Auto)
		tools[0].Returns("done")
		require.NoError(t, tools[1].Notify("notifications/message", nil))
		require.Equal(t, "200 sse comment 1:message 2:result open", res.Story())
		kit.RequireHead(t, res.Head, kit.StreamHead...)
		tools[1].Returns("done")
		require.Equal(t, "200 sse comment 1:message 2:result 3:result ended", res.Story())
	}},
	{"attached: a response is written when it comes, and the last one ends the stream", func(t *testing.T) {
		_, res, tools := batchOfTwo(t, rejoin.Auto)
		require.NoError(t, tools[0].Notify("notifications/message", nil))
		tools[0].Returns("done")
		require.Equal(t, "200 sse comment 1:message 2:result open", res.Story())
		tools[1].Returns("done")
		require.Equal(t, "200 sse comment 1:message 2:result 3:result ended", res.Story())
	}},
	{"none reads: each response is recorded, and a resume brings them", func(t *testing.T) {
		w, res, tools := batchOfTwo(t, rejoin.Auto)
		require.NoError(t, tools[0].Notify("notifications/message", nil))
		require.Equal(t, "200 sse comment 1:message open", res.Story())
		cursor := batchIDs.FindStringSubmatch(res.Body.String())[1]
		require.Equal(t, "comment", w.streams(w.cursor(cursor)), "it takes over, and is cut")
		require.Equal(t, "200 sse comment 1:message ended", res.Story())
		tools[1].Returns("done")
		require.Equal(t, "comment 2:result", w.streams(w.cursor(cursor)))
		tools[0].Returns("done")
		body, end := kit.ReadAll(t, w.c.Do(w.cursor(cursor)))
		kit.RequireStream(t, end)
		require.Equal(t, "comment 2:result 3:result", kit.Events(body))
		ids := batchIDs.FindAllStringSubmatch(body, -1)
		w.accepts(w.cursor(ids[len(ids)-1][1]), http.StatusNoContent, "Content-Type", "text/event-stream")
	}},
	{"undecided: the answer has no response to a request that was cancelled", func(t *testing.T) {
		w, res, tools := batchOfTwo(t, rejoin.Auto)
		w.cancelOne(tools).Returns("done")
		require.Equal(t, "200 [result] ended", res.Story())
		w, res, tools = batchOfTwo(t, rejoin.Auto)
		tools[1].Returns("done") // held
		w.cancels("a")
		w.cancels("b")
		require.Equal(t, "200 [result] ended", res.Story(), "the one that was answered is not cancelled any more")
	}},
	{"attached: a request that was cancelled has no response, and the other ends the stream", func(t *testing.T) {
		w, res, tools := batchOfTwo(t, rejoin.Auto)
		require.NoError(t, tools[0].Notify("notifications/message", nil))
		w.cancelOne(tools).Returns("done")
		require.Equal(t, "200 sse comment 1:message 2:result ended", res.Story())
	}},
	{"where all requests of a batch are cancelled, the answer is empty", func(t *testing.T) {
		for mode, want := range map[rejoin.Mode]string{rejoin.Auto: "200 sse ended", rejoin.JSON: "202 ended"} {
			w, res, _ := batchOfTwo(t, mode)
			w.cancels("a")
			require.Equal(t, "open", res.Story())
			w.cancels("b")
			require.Equal(t, want, res.Story())
			require.Empty(t, res.Body.String())
			require.EqualValues(t, 1, w.c.Server().Stats().Streams)
			w.lives()
		}
	}},
	{"the end of the session refuses a batch that is undecided, with a null id", func(t *testing.T) {
		w, res, tools := batchOfTwo(t, rejoin.Auto)
		w.c.Delete()
		require.Equal(t, "404 error(-32001,null) ended", res.Story())
		kit.RequireHead(t, res.Head, "Content-Type", "application/json")
		for _, tool := range tools {
			require.ErrorIs(t, tool.Cause(), rejoin.ErrSessionEnded)
		}
	}},
}
