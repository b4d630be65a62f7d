package client_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

func TestATokenOfATaskGoesOnWithIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var said atomic.Value
		said.Store("one")
		server := &tasking{on: on{"tasks/get": func(w http.ResponseWriter, h request, n int) {
			if said.Load() == "" {
				h.answer(w, completed())
				return
			}
			h.answer(w, state("complete", "working", fmt.Sprintf(`"statusMessage":%q`, said.Load())))
		}}}
		hc, s, call := playTask(t, server, client.Config{})
		synctest.Wait()
		early := call.Token()
		require.NotEmpty(t, early, "there is a task to come back for before it says anything")
		for m := range call.Messages() {
			require.Contains(t, string(m.Params), `"statusMessage":"one"`)
			break
		}
		token := call.Token()
		require.NotEqual(t, early, token)
		s.Leave()
		require.Equal(t, token, call.Token())
		polls := len(server.hits("tasks/get"))

		begun := time.Now()
		again, err := client.Resume(t.Context(), address, token, client.Config{HTTP: hc, Era: client.EraLegacy})
		require.NoError(t, err, "the token knows its era")
		synctest.Wait()
		require.Len(t, server.hits("tasks/get"), polls+1, "it polls at once")
		require.Zero(t, time.Since(begun))
		said.Store("two")
		for m := range again.Messages() {
			require.Contains(t, string(m.Params), `"statusMessage":"two"`, "what was said before is not said again")
			break
		}
		require.Equal(t, again.Leave(), again.Token())
		said.Store("")
		got, err := rest(t, hc, token)
		require.NoError(t, err)
		require.Empty(t, got)
		require.Len(t, server.hits("tools/call"), 1)
		require.Len(t, server.hits("server/discover"), 1)
	})
}

func TestAnOlderTokenOfATaskSaysTheNewestAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{on: on{"tasks/get": func(w http.ResponseWriter, h request, n int) {
			more := `"statusMessage":"one"`
			if n > 2 {
				h.answer(w, state("complete", "completed", more+`,"result":{"ok":true}`))
				return
			}
			h.answer(w, state("complete", "working", more))
		}}}
		hc, s, call := playTask(t, server, client.Config{})
		synctest.Wait()
		token := call.Token()
		<-time.After(3 * time.Second)
		s.Leave()
		for range 2 {
			got, err := rest(t, hc, token)
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Contains(t, got[0], "one")
		}
	})
}

func TestAResumedTaskCanBeCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{}
		hc, _, call := playTask(t, server, client.Config{})
		synctest.Wait()
		again, err := client.Resume(t.Context(), address, call.Leave(), client.Config{HTTP: hc})
		require.NoError(t, err)
		<-time.After(time.Minute)
		again.Cancel("enough")
		require.ErrorIs(t, again.Wait(t.Context(), nil), client.ErrCancelled)
		require.Len(t, server.hits("tasks/cancel"), 1)
	})
}

func TestATaskTokenThatNoCallMadeIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, call := playTask(t, &tasking{}, client.Config{})
		synctest.Wait()
		raw, err := base64.RawURLEncoding.DecodeString(call.Token())
		require.NoError(t, err)
		require.JSONEq(t, `{"f":2,"v":"2026-07-28","i":"1","t":"t1","c":""}`, string(raw))
		for _, text := range []string{
			`{"f":2,"v":"2026-07-28","i":"1","t":"","c":""}`,
			`{"f":2,"v":"2026-07-28","i":"1","c":"a"}`,
			`{"f":2,"v":"2025-11-25","i":"1","t":"t1","c":""}`,
			`{"f":2,"v":"2099-01-01","i":"1","t":"t1","c":""}`,
			`{"f":2,"s":"sid","v":"2026-07-28","i":"1","t":"t1","c":""}`,
			`{"f":2,"v":"2026-07-28","i":"x","t":"t1","c":""}`,
			`{"f":2,"v":"2026-07-28","i":"1","t":"` + strings.Repeat("x", 5000) + `","c":""}`,
			`{"f":1,"v":"2026-07-28","i":"1","t":"t1","c":"a"}`,
			`{"f":1,"v":"2025-11-25","i":"1","t":"t1","c":"a"}`,
			`{"f":3,"v":"2026-07-28","i":"1","t":"t1","c":""}`,
		} {
			_, err := client.Resume(t.Context(), address, base64.RawURLEncoding.EncodeToString([]byte(text)), client.Config{})
			require.ErrorIs(t, err, client.ErrToken, text)
		}
	})
}

// An id of whatever characters can be asked for, and the trace has the id before it is needed.
func TestAnIDOfATaskIsSentAsItIs(t *testing.T) {
	for _, id := range []string{"ö", " t ", "a\\nb", "=?base64?eA==?=", `\u0000`} {
		bubble(t, func(t *testing.T) {
			named := func(text string) string { return strings.Replace(text, `"t1"`, `"`+id+`"`, 1) }
			server := &tasking{on: on{
				"tools/call": func(w http.ResponseWriter, h request, n int) { h.answer(w, named(state("task", "working", ""))) },
				"tasks/get":  then(named(completed())),
			}}
			_, _, call := playTask(t, server, client.Config{})
			require.NoError(t, call.Wait(t.Context(), nil))
			require.JSONEq(t, `"`+id+`"`, string(server.hits("tasks/get")[0].params["taskId"]))
		})
	}
}

func TestTheTraceOfATask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &tasking{on: on{"tasks/get": func(w http.ResponseWriter, h request, n int) {
			if n == 1 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			h.answer(w, completed())
		}}}
		var lines []string
		trace := func(e client.TraceEvent) {
			lines = append(lines, strings.Join(strings.Fields(strings.Join([]string{string(e.Kind), e.Stream, e.Method, e.EventID, e.State}, " ")), " "))
		}
		_, _, call := playTask(t, server, client.Config{Trace: trace})
		require.NoError(t, call.Wait(t.Context(), nil))
		require.Equal(t, []string{
			"post 0 server/discover", "head 0", "event 0", "close 0",
			"post 1 tools/call", "head 1", "event 1", "close 1", "task 1 t1 working", "wait 1",
			"post 1 tasks/get", "head 1", "wait 1",
			"post 1 tasks/get", "head 1", "event 1", "close 1", "task 1 t1 completed",
		}, lines)
	})
}
