package client_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

func TestACallThatIsNoTaskYetIsLostWithItsConnection(t *testing.T) {
	for name, lose := range map[string]func(w http.ResponseWriter, h request){
		"no head":        func(w http.ResponseWriter, h request) { cut(w) },
		"after progress": func(w http.ResponseWriter, h request) { stream(w, "data: "+note(1)+"\n\n") },
		"an event id":    func(w http.ResponseWriter, h request) { stream(w, primer("a")+event("b", note(1))) },
		"half an answer": func(w http.ResponseWriter, h request) { w.Header().Set("Content-Length", "500"); h.answer(w, "{}") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &tasking{on: on{"tools/call": func(w http.ResponseWriter, h request, n int) { lose(w, h) }}}
				_, _, call := playTask(t, server, client.Config{})
				err := call.Wait(t.Context(), nil)
				require.ErrorIs(t, err, client.ErrMayHaveRun)
				require.ErrorContains(t, err, "connection lost before the answer, and the call was no task")
				require.Empty(t, call.Token(), "there are no event ids in this era")
				<-time.After(time.Hour)
				require.Len(t, server.hits("tools/call"), 1, "it is not sent again")
			})
		})
	}
}

func TestCancelIsForTasks(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(s *client.Session, call *client.Call, stop context.CancelFunc)
		want error
	}{
		"Cancel":          {func(_ *client.Session, call *client.Call, _ context.CancelFunc) { call.Cancel("enough") }, client.ErrCancelled},
		"the context":     {func(_ *client.Session, _ *client.Call, stop context.CancelFunc) { stop() }, context.Canceled},
		"Close":           {func(s *client.Session, _ *client.Call, _ context.CancelFunc) { _ = s.Close(context.Background()) }, client.ErrClosed},
		"Leave":           {func(_ *client.Session, call *client.Call, _ context.CancelFunc) { call.Leave() }, client.ErrLeft},
		"Session.Leave":   {func(s *client.Session, _ *client.Call, _ context.CancelFunc) { s.Leave() }, client.ErrLeft},
		"Cancel, refused": {func(_ *client.Session, call *client.Call, _ context.CancelFunc) { call.Cancel("") }, client.ErrCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &tasking{t: t, on: on{}}
				if name == "Cancel, refused" {
					server.on["tasks/cancel"] = func(w http.ResponseWriter, h request, n int) {
						if n == 1 {
							w.WriteHeader(http.StatusBadGateway)
							return
						}
						h.answer(w, `{"resultType":"complete"}`)
					}
				}
				s := connect(t, serve(t, server), client.Config{})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				call, err := s.Start(ctx, "tools/call", map[string]any{"name": "x"})
				require.NoError(t, err)
				<-time.After(5 * time.Second)
				end.do(s, call, stop)
				require.ErrorIs(t, call.Wait(t.Context(), nil), end.want)
				synctest.Wait()
				want := 1
				switch {
				case end.want == client.ErrLeft:
					want = 0
				case name == "Cancel, refused":
					want = 2
				}
				require.Len(t, server.hits("tasks/cancel"), want)
				polls := len(server.hits("tasks/get"))
				<-time.After(time.Minute)
				require.Len(t, server.hits("tasks/get"), polls, "nobody asks any more")
			})
		})
	}
}

// A call that is not a task yet is cancelled by the end of its connection.
func TestCancelBeforeTheTaskEndsTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gone := make(chan struct{})
		server := &tasking{on: on{"tools/call": func(w http.ResponseWriter, h request, n int) {
			stream(w, ": hi\n\n")
			<-h.gone
			close(gone)
		}}}
		_, _, call := playTask(t, server, client.Config{})
		<-time.After(time.Hour)
		require.Empty(t, call.Token())
		call.Cancel("enough")
		require.ErrorIs(t, call.Wait(t.Context(), nil), client.ErrCancelled)
		<-gone
		require.Empty(t, server.hits("tasks/cancel"))
		require.Empty(t, server.hits("notifications/cancelled"))
	})
}
