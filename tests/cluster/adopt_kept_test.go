package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func byUser(c *rejoin.Config) { c.Principal = kit.ByUser }

// openFor opens a session of a user at a process.
func (w *world) openFor(t *testing.T, n int, user string) (id string) {
	t.Helper()
	res := kit.Serve(w.processes[n].Server, kit.Request(t, http.MethodPost, kit.Initialize, "X-User", user))
	require.Equal(t, served, res.Summary())
	return res.Head.Get("Mcp-Session-Id")
}

func TestWhatASessionKeeps(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{config: byUser}
		of := watch(&o)
		w := newWorld(t, o)
		w.Delete()
		session := w.openFor(t, 0, "ann")
		w.ask(t, 0, http.MethodPost, session, kit.CallBody(`"<a>&"`, `{"_meta":{"progressToken":1}}`), "X-User", "ann")
		tool := w.processes[0].next()
		require.NoError(t, tool.Progress(1, 0, ""))
		elapse(time.Second)
		s, before := of(0).last().s, kit.Sessions(w.processes[0].Server)[0]
		w.kill(0)
		require.Equal(t, served, w.ask(t, 1, http.MethodPost, session, kit.Ping, "X-User", "ann").Summary())
		mine, after := of(1).last().s, kit.Sessions(w.processes[1].Server)[0]

		require.Equal(t, session, mine.ID())
		require.Equal(t, s.Ref(), mine.Ref(), "logs and admin routes still name it so")
		require.Equal(t, "ann", mine.Principal())
		require.Equal(t, kit.Polling, mine.Version())
		require.Equal(t, s.Client(), mine.Client())
		for _, method := range []string{"roots/list", "sampling/createMessage", "elicitation/create", "tasks/list"} {
			require.Equal(t, s.CanAsk(method), mine.CanAsk(method), method)
		}
		require.Equal(t, before.Ref, after.Ref)
		require.Equal(t, before.Principal, after.Principal)
		require.Equal(t, before.Version, after.Version)
		require.Equal(t, before.Polls, after.Polls)
		require.JSONEq(t, string(before.Client), string(after.Client))
		require.True(t, before.Created.Equal(after.Created))
		require.Len(t, after.Streams, 2)
		was, is := before.Streams[1], after.Streams[1]
		require.Equal(t, was.Ref, is.Ref)
		require.JSONEq(t, `"<a>&"`, string(is.RequestID))
		require.Equal(t, was.Method, is.Method)
		require.Equal(t, "sealed", is.State)
		require.Equal(t, was.Events, is.Events)
		require.NoError(t, w.processes[1].EndSession(s.Ref()))
		require.Equal(t, gone, w.ask(t, 1, http.MethodPost, session, kit.Ping, "X-User", "ann").Summary())
	})
}

// A client that says nothing of itself, and one that cannot poll.
func TestWhatASessionOfAPlainClientKeeps(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		w.Delete()
		res := kit.Serve(w.processes[0].Server, kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}`))
		require.Equal(t, served, res.Summary())
		s := of(0).last().s
		w.kill(0)
		require.Equal(t, served, w.ping(t, 1, res.Head.Get("Mcp-Session-Id")))
		mine := of(1).last().s
		require.Equal(t, s.Client(), mine.Client())
		require.Equal(t, s.Version(), mine.Version())
		require.Empty(t, mine.Principal())
		require.False(t, mine.CanAsk("roots/list"))
		require.False(t, kit.Sessions(w.processes[1].Server)[0].Polls)
		require.Nil(t, kit.Sessions(w.processes[1].Server)[0].Client)
	})
}

// The app opens the session with what it saved last: with a response, or without one.
func TestSavedStateOpensTheSession(t *testing.T) {
	for name, save := range map[string]func(*process, *rejoin.Session, *kit.ManualTool){
		"with a response": func(_ *process, s *rejoin.Session, tool *kit.ManualTool) {
			_ = s.SaveState([]byte("old"))
			_ = s.SaveState([]byte("saved"))
			tool.Returns("done")
		},
		"without one": func(_ *process, s *rejoin.Session, _ *kit.ManualTool) {
			_ = s.SaveState([]byte("saved"))
			elapse(200 * time.Millisecond)
		},
		"by a function": func(_ *process, s *rejoin.Session, tool *kit.ManualTool) {
			state := "old"
			_ = s.SaveStateFunc(func() []byte { return []byte(state) })
			state = "saved"
			tool.Returns("done")
		},
		"at the second attempt": func(p *process, s *rejoin.Session, tool *kit.ManualTool) {
			failed := false
			p.link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
				if c.Op == "save" && !failed {
					failed, f.Before = true, errors.New("away")
				}
				return f
			})
			_ = s.SaveState([]byte("saved"))
			tool.Returns("done")
			elapse(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				o := options{}
				of := watch(&o)
				w := newWorld(t, o)
				call := w.CallTool("x", nil)
				save(w.processes[0], of(0).last().s, w.processes[0].next())
				w.lose()
				require.Equal(t, served, w.ping(t, 1, w.session()))
				require.Equal(t, "saved", string(of(1).last().state))
				require.Equal(t, "saved", string(of(1).last().s.SavedState()), "until the app saves something else")
				if name == "at the second attempt" {
					require.Equal(t, rejoin.ReasonStore, call.Err().Reason(), "the client was not promised what another process did not know")
				}
			})
		})
	}
}

// Nothing was saved, which is not the same as an empty state.
func TestNoStateAndAnEmptyState(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		w.add(o)
		require.False(t, of(0).last().known, "App.Open of a new session gets nil")
		w.lose()
		require.Equal(t, served, w.ping(t, 1, w.session()))
		require.False(t, of(1).last().known)
		require.Nil(t, of(1).last().s.SavedState())
		require.NoError(t, of(1).last().s.SaveState([]byte{}))
		elapse(time.Second)
		w.kill(1)
		require.Equal(t, served, w.ping(t, 2, w.session()))
		require.True(t, of(2).last().known)
		require.Empty(t, of(2).last().state)
	})
}

// The second owner saves nothing, and the third gets what the first saved.
func TestStateIsKeptByOwnersThatSaveNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		w.add(o)
		require.NoError(t, of(0).last().s.SaveState([]byte("saved")))
		elapse(time.Second)
		w.lose()
		require.Equal(t, served, w.ping(t, 1, w.session()))
		w.engine.Forget() // the second restores the record
		elapse(lease)
		w.kill(1)
		require.Equal(t, served, w.ping(t, 2, w.session()))
		require.Equal(t, "saved", string(of(2).last().state))
	})
}

// levels is an app that keeps what the client sets with logging/setLevel in the state of its session, and sends notifications/message accordingly.
type levels struct{ rejoin.App }

func newLevels() rejoin.App {
	return levels{rejoin.NewApp(kit.Info, kit.RawResults(func(ctx context.Context, r *rejoin.Request) (any, error) {
		s := rejoin.HandleFromContext(ctx).Session()
		switch r.Method {
		case "logging/setLevel":
			var params struct{ Level string }
			if err := json.Unmarshal(r.Params, &params); err != nil {
				return nil, err
			}
			return nil, s.SaveState([]byte(params.Level))
		default:
			return string(s.SavedState()), nil
		}
	}))}
}

// What a setLevel promised holds in the process that adopts the session, and in the next one.
func TestALogLevelIsKept(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{app: func(int) (rejoin.App, func() *kit.ManualTool) { return newLevels(), nil }}
		w := newWorld(t, o)
		w.add(o)
		require.Equal(t, `{}`, string(w.Start("logging/setLevel", map[string]string{"level": "debug"}).Result()))
		require.Equal(t, `{}`, string(w.Start("logging/setLevel", map[string]string{"level": "warning"}).Result()))
		w.lose()
		require.JSONEq(t, `"warning"`, string(w.Start("level", nil).Result()))
		require.Equal(t, `{}`, string(w.Start("logging/setLevel", map[string]string{"level": "error"}).Result()))
		w.kill(1)
		w.use(2)
		require.JSONEq(t, `"error"`, string(w.Start("level", nil).Result()))
	})
}
