package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// three is a world of three processes, whose first is lost.
func three(t *testing.T, o options) (w *world, of func(int) *watched) {
	t.Helper()
	of = watch(&o)
	w = newWorld(t, o)
	w.add(o)
	w.kill(0)
	return w, of
}

var errOpen = errors.New("the app cannot")

// An *Error of App.Open is final: the session has ended, for all processes.
func TestAnOpenThatRefusesEndsTheSession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of := three(t, options{})
		of(1).opens(func(*http.Request, *rejoin.Session, []byte) error { return rejoin.Errorf(-32042, "no") })
		require.Equal(t, gone, w.ping(t, 1, w.session()))
		require.Equal(t, gone, w.ping(t, 1, w.session()))
		require.Equal(t, gone, w.ping(t, 2, w.session()))
		require.Equal(t, 1, of(1).times())
		require.Zero(t, of(2).times())
		require.Empty(t, of(1).causes(), "there is no app's side that could be told")
		require.Zero(t, w.processes[1].Stats().Adopted)
		require.Zero(t, w.processes[1].Stats().Sessions)
	})
}

// Any other failure says nothing of the session: another process may open it at once, and the client is to try again.
func TestAnOpenThatFailsReleasesTheSession(t *testing.T) {
	for name, open := range map[string]func(*http.Request, *rejoin.Session, []byte) error{
		"an error": func(*http.Request, *rejoin.Session, []byte) error { return errOpen },
		"a panic":  func(*http.Request, *rejoin.Session, []byte) error { panic("oops") },
		"Goexit": func(*http.Request, *rejoin.Session, []byte) error {
			runtime.Goexit()
			return nil
		},
		"too slow": func(r *http.Request, _ *rejoin.Session, _ []byte) error {
			<-r.Context().Done()
			return context.Cause(r.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, of := three(t, options{})
				of(1).opens(open)
				began := time.Now()
				res := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
				elapse(5 * time.Second)
				require.Equal(t, later, res.Summary())
				require.Equal(t, "1", res.Head.Get("Retry-After"))
				require.LessOrEqual(t, time.Since(began), 5*time.Second)
				require.Equal(t, served, w.ping(t, 2, w.session()), "another process does not wait for anything")
				require.EqualValues(t, 1, w.processes[2].Stats().Adopted)
				require.Zero(t, w.processes[1].Stats().Sessions)
				require.Zero(t, w.processes[1].Stats().Adopted)
				require.Equal(t, served, w.ping(t, 1, w.session()))
				require.EqualValues(t, 1, w.processes[2].Stats().Received, "it is another's now")
				require.Equal(t, 1, of(1).times())
				require.Positive(t, w.processes[1].log.Count("could not open"))
			})
		})
	}
}

// The app may have been unable for a moment. If it fails three times in a row, the session has ended.
func TestAnOpenThatKeepsFailing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of := three(t, options{})
		of(1).opens(func(*http.Request, *rejoin.Session, []byte) error { return errOpen })
		require.Equal(t, later, w.ping(t, 1, w.session()))
		require.Equal(t, later, w.ping(t, 1, w.session()))
		require.Equal(t, gone, w.ping(t, 1, w.session()))
		require.Equal(t, gone, w.ping(t, 1, w.session()))
		require.Equal(t, gone, w.ping(t, 2, w.session()))
		require.Equal(t, 3, of(1).times())
	})
}

func TestAnOpenThatSucceedsAtLast(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of := three(t, options{})
		of(1).opens(func(*http.Request, *rejoin.Session, []byte) error { return errOpen })
		require.Equal(t, later, w.ping(t, 1, w.session()))
		require.Equal(t, later, w.ping(t, 1, w.session()))
		of(1).opens(nil)
		require.Equal(t, served, w.ping(t, 1, w.session()))
		require.Equal(t, 3, of(1).times())
		require.Empty(t, of(1).causes())
		of(1).send(t, "a")
	})
}

// A GET is not refused while the app cannot open the session: some clients give their stream up for good at an error.
func TestAGetWhileTheAppCannotOpen(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		call, tool := w.run(t, 1)
		tool.Returns("done")
		w.lose()
		of(1).opens(func(*http.Request, *rejoin.Session, []byte) error { return errOpen })
		call.Poll()
		require.Equal(t, "200 sse primer@1 retry closed", kit.Last(call))
		of(1).opens(nil)
		require.Equal(t, `"done"`, string(call.Result()))
		require.EqualValues(t, 1, w.processes[1].Stats().Held)
	})
}

// App.Open that hangs does not hold up its client for more than 5 s. What it returns then is told that its session has moved.
func TestAnOpenThatComesBackLate(t *testing.T) {
	for name, result := range map[string]error{"with a session": nil, "with an error": errOpen} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, of := three(t, options{})
				goOn := make(chan struct{})
				of(1).opens(func(r *http.Request, _ *rejoin.Session, _ []byte) error {
					<-goOn // it does not look at its context
					if r.Context().Err() == nil {
						t.Error("the context has not ended")
					}
					return result
				})
				res := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
				elapse(4900 * time.Millisecond)
				require.Equal(t, "open", res.Summary())
				elapse(200 * time.Millisecond)
				require.Equal(t, later, res.Summary())
				require.Equal(t, served, w.ping(t, 2, w.session()))
				close(goOn)
				synctest.Wait()
				if result == nil {
					require.Len(t, of(1).causes(), 1)
					require.ErrorIs(t, of(1).causes()[0], rejoin.ErrMoved)
				} else {
					require.Empty(t, of(1).causes())
				}
				require.Equal(t, served, w.ping(t, 2, w.session()), "that changes nothing for the owner")
				require.Empty(t, of(2).causes())
				require.Zero(t, w.processes[1].Stats().Sessions)
			})
		})
	}
}

// App.Open may end the session: it has ended then, for all processes.
func TestAnOpenThatEndsItsSession(t *testing.T) {
	for name, result := range map[string]error{"and succeeds": nil, "and fails": errOpen} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, of := three(t, options{})
				why := errors.New("the tenant is gone")
				of(1).opens(func(_ *http.Request, s *rejoin.Session, _ []byte) error {
					s.End(why)
					return result
				})
				require.Equal(t, gone, w.ping(t, 1, w.session()))
				if result == nil {
					require.Len(t, of(1).causes(), 1, "the app's side is told")
					require.ErrorIs(t, of(1).causes()[0], why)
				}
				require.Equal(t, gone, w.ping(t, 1, w.session()))
				require.Equal(t, gone, w.ping(t, 2, w.session()))
				require.Equal(t, 1, of(1).times())
				require.Zero(t, of(2).times())
				require.Zero(t, w.processes[1].Stats().Sessions)
			})
		})
	}
}

// While the app opens the session, a newer owner may adopt it. The client is to come back for that.
func TestAnOpenWhoseSessionMoves(t *testing.T) {
	for name, result := range map[string]error{"and succeeds": nil, "and fails": errOpen} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				o := options{}
				of := watch(&o)
				w := newWorld(t, o)
				w.add(o)
				w.kill(0)
				goOn := make(chan struct{})
				of(1).opens(func(_ *http.Request, s *rejoin.Session, _ []byte) error {
					<-goOn
					_ = s.Notify(context.Background(), "notifications/x", nil)
					<-s.Done()
					return result
				})
				res := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
				newer := o.start(t, w, "http://1")
				t.Cleanup(newer.Close)
				elapse(lease / 3) // the third sees it
				require.Equal(t, served, w.ping(t, 2, w.session()))
				close(goOn)
				require.Equal(t, served, res.Summary(), "by the newer owner")
				require.Equal(t, served, w.ping(t, 2, w.session()))
				if result == nil {
					require.ErrorIs(t, of(1).causes()[0], rejoin.ErrMoved)
				}
			})
		})
	}
}

// The session can be used as soon as App.Open gets it, as that of a new one.
func TestAnOpenThatUsesItsSession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		w.add(o)
		listen := w.Listen()
		of(0).send(t, "a")
		w.lose()
		asked := make(chan error, 1)
		of(1).opens(func(r *http.Request, s *rejoin.Session, _ []byte) error {
			if s.Version() != kit.Polling || s.ID() != w.session() || r.Header.Get("Mcp-Session-Id") != s.ID() {
				t.Error("the session is not complete")
			}
			if err := s.Notify(context.Background(), "notifications/b", nil); err != nil {
				t.Error(err)
			}
			s.AskFunc(context.Background(), "ping", nil, func(_ json.RawMessage, err error) { asked <- err })
			return s.SaveState([]byte("opened"))
		})
		listen.Poll()
		require.Equal(t, "200 sse primer@1 1:b 2:ping open", kit.Last(listen))
		require.EqualError(t, <-asked, `JSON-RPC error -32601: rejointest: Config.OnRequest does not answer ping`)
		elapse(time.Second)
		w.kill(1)
		require.Equal(t, served, w.ping(t, 2, w.session()))
		require.Equal(t, "opened", string(of(2).last().state))
		w.use(2)
		listen.Poll()
		of(2).send(t, "c")
		require.Equal(t, "200 sse primer@2 1:c open", kit.Last(listen))
	})
}

// App.Open cannot read the body of the request that adopts, and the request is served with it.
func TestTheRequestThatAppOpenGets(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of := three(t, options{})
		var method, user string
		of(1).opens(func(r *http.Request, _ *rejoin.Session, _ []byte) error {
			method, user = r.Method, r.Header.Get("X-User")
			n, err := r.Body.Read(make([]byte, 1))
			if n != 0 || err == nil {
				t.Error("there is a body")
			}
			_, has := r.Context().Deadline()
			if !has {
				t.Error("there is no deadline")
			}
			return nil
		})
		require.Equal(t, served, w.ask(t, 1, http.MethodPost, w.session(), kit.Ping, "X-User", "ann").Summary())
		require.Equal(t, "POST ann", method+" "+user)
	})
}
