package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// trickyStore does first what its functions say, those that it has.
type trickyStore struct {
	*eventstore.Memory

	instant     bool
	log         func()
	append      func(context.Context) error
	read        func(context.Context) (eventstore.State, error)
	mark        func()
	dropSession func(context.Context) error
	logs, drops atomic.Int64
}

func (s *trickyStore) Instant() bool { return s.instant }

func (s *trickyStore) Log(k eventstore.Key) eventstore.Log {
	s.logs.Add(1)
	if s.log != nil {
		s.log()
	}
	return trickyLog{s.Memory.Log(k), s}
}

func (s *trickyStore) DropSession(ctx context.Context, session string) error {
	s.drops.Add(1)
	if s.dropSession != nil {
		if err := s.dropSession(ctx); err != nil {
			return err
		}
	}
	return s.Memory.DropSession(ctx, session)
}

type trickyLog struct {
	eventstore.Log

	s *trickyStore
}

func (l trickyLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	if l.s.append != nil {
		if err := l.s.append(ctx); err != nil {
			return err
		}
	}
	return l.Log.Append(ctx, first, events, seal)
}

func (l trickyLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	if l.s.read != nil {
		if state, err := l.s.read(ctx); err != nil || state.First > 0 {
			return 0, state, err
		}
	}
	return l.Log.Read(ctx, after, buf, maxBytes)
}

func (l trickyLog) Mark(m eventstore.Mark) {
	if l.s.mark != nil {
		l.s.mark()
	}
	l.Log.Mark(m)
}

// never answers until the store gives up.
func never(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestATasksStoreMayFail: whatever the store does, the client gets the result, or an error that says why it cannot.
func TestATasksStoreMayFail(t *testing.T) {
	const kept, lost, gone = "completed result", "failed error store failed", "failed error expired"
	deadline := context.DeadlineExceeded.Error()
	for name, c := range map[string]struct {
		spoil  func(*trickyStore)
		takes  time.Duration // End
		shows  string
		told   string // by the end of everything
		failed int64
	}{
		"works":        {func(*trickyStore) {}, 0, kept, "", 0},
		"fails":        {func(s *trickyStore) { s.append = func(context.Context) error { return errBroken } }, 0, kept, "store: broken", 1},
		"panics":       {func(s *trickyStore) { s.append = func(context.Context) error { panic("x") } }, 0, kept, "panic in eventstore.Log.Append", 0},
		"has no log":   {func(s *trickyStore) { s.log = func() { panic("x") } }, 0, kept, "panic in eventstore.Store.Log", 0},
		"does not end": {func(s *trickyStore) { s.append = never }, 10 * time.Second, kept, "store: " + deadline, 1},
		"is full":      {func(s *trickyStore) { s.append = func(context.Context) error { return eventstore.ErrFull } }, 0, kept, "", 0},
		"is fenced": {
			func(s *trickyStore) { s.append = func(context.Context) error { return eventstore.ErrFenced } }, 0, kept,
			"store: " + eventstore.ErrFenced.Error(), 1,
		},
		"forgets": {
			func(s *trickyStore) {
				s.read = func(context.Context) (eventstore.State, error) { return eventstore.State{First: 1}, nil }
			}, 0, lost, "", 0,
		},
		"says it is gone": {
			func(s *trickyStore) {
				s.read = func(context.Context) (eventstore.State, error) { return eventstore.State{}, eventstore.ErrGone }
			}, 0, lost, "", 0,
		},
		"has made room": {
			func(s *trickyStore) {
				s.read = func(context.Context) (eventstore.State, error) {
					return eventstore.State{First: 2, Last: 1, Sealed: true}, nil
				}
			}, 0, gone, "", 0,
		},
		"panics at a mark": {func(s *trickyStore) { s.mark = func() { panic("x") } }, 0, kept, "panic in eventstore.Log.Mark", 0},
		"panics at the drop": {
			func(s *trickyStore) { s.dropSession = func(context.Context) error { panic("x") } }, 0, kept, "panic in eventstore.Store.DropSession", 1,
		},
		"fails at the drop":      {func(s *trickyStore) { s.dropSession = func(context.Context) error { return errBroken } }, 0, kept, "", 1},
		"does not end the drop":  {func(s *trickyStore) { s.dropSession = never }, 0, kept, "", 1},
		"is instant":             {func(s *trickyStore) { s.instant = true }, 0, kept, "", 0},
		"is instant, and panics": {func(s *trickyStore) { s.instant, s.log = true, func() { panic("x") } }, 0, kept, "panic in eventstore.Store.Log", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &trickyStore{Memory: newMemory()}
				c.spoil(store)
				ts := newTestTasks(store, 0, 0)
				call := new(testCall)
				task := ts.Start(call, call, "alice", taskConfig)
				w := NewTaskWatcher()
				w.Watch(task)
				began := time.Now()
				task.End(core.TaskCompleted, "", []byte("result"))
				require.Equal(t, c.takes, time.Since(began))
				require.Equal(t, c.shows, show(task))
				require.Equal(t, c.shows, show(task))
				requireCount(t, ts, 0, 1, 1)
				require.Same(t, task, w.Next())
				require.Nil(t, w.Next())
				w.Stop(task)
				task.Fetched()
				requireCount(t, ts, 0, 0, 1)
				<-time.After(2 * time.Hour)
				synctest.Wait()
				require.Equal(t, "unknown", show(task))
				requireCount(t, ts, 0, 0, 0)
				require.Equal(t, c.told, call.told())
				require.Equal(t, c.failed, ts.engine.Counters.StoreFailed.Load())
				if store.dropSession == nil {
					requireEmpty(t, ts, store.Memory)
				}
			})
		})
	}
}

// TestATasksStoreMayFailForAWhile: a client that asks again gets what it could not be given.
func TestATasksStoreMayFailForAWhile(t *testing.T) {
	for name, broken := range map[string]func(context.Context) (eventstore.State, error){
		"fails":   func(context.Context) (eventstore.State, error) { return eventstore.State{}, errBroken },
		"panics":  func(context.Context) (eventstore.State, error) { panic("x") },
		"hangs":   func(ctx context.Context) (eventstore.State, error) { return eventstore.State{}, never(ctx) },
		"is shut": func(context.Context) (eventstore.State, error) { return eventstore.State{}, eventstore.ErrClosed },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &trickyStore{Memory: newMemory(), read: broken}
				ts := newTestTasks(store, 0, 0)
				call := new(testCall)
				task := ts.Start(call, call, "", taskConfig)
				task.End(core.TaskCompleted, "done", []byte("result"))
				began := time.Now()
				require.Equal(t, "completed done (store failed)", show(task))
				require.LessOrEqual(t, time.Since(began), 10*time.Second)
				require.NotEmpty(t, call.told())
				store.read = nil
				require.Equal(t, "completed done result", show(task))
				task.Discard()
				synctest.Wait()
				requireEmpty(t, ts, store.Memory)
			})
		})
	}
}

// TestATasksResultMayBeEvicted by a store that needs the room: what was fetched first.
func TestATasksResultMayBeEvicted(t *testing.T) {
	store := eventstore.NewMemory(eventstore.MemoryConfig{TotalBytes: 1 << 20})
	ts := newTestTasks(store, 0, 0)
	finish := func() *Task {
		task := ts.Start(new(testCall), new(testCall), "alice", core.TaskConfig{})
		task.End(core.TaskCompleted, "", make([]byte, 300<<10))
		return task
	}
	first, fetched := finish(), finish()
	fetched.Fetched()
	finish()
	finish()
	require.Equal(t, "failed error expired", show(fetched))
	v, why := first.View()
	require.Equal(t, core.NoReason, why)
	require.Len(t, v.Response, 300<<10)
	requireCount(t, ts, 0, 3, 4)
	for _, task := range ts.byID {
		task.Discard()
	}
	requireEmpty(t, ts, store)
}

// TestATaskThatIsDroppedDuringItsEnd leaves nothing in the store, also if the store cannot tell that the log was dropped.
func TestATaskThatIsDroppedDuringItsEnd(t *testing.T) {
	for name, end := range map[string]func(*Task){
		"discard": func(task *Task) { task.Discard() },
		"cancel":  func(task *Task) { task.Cancel() }, // and dropped after TTL
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The first append waits, and then makes a log of its own: another process has no proof of the drop.
				store := &trickyStore{Memory: newMemory()}
				wait := make(chan struct{})
				store.append = func(context.Context) error {
					<-wait
					return nil
				}
				ts := New(Config{Store: forgetfulStore{store}}).NewTasks(0, 0)
				call := new(testCall)
				task := ts.Start(call, call, "", taskConfig)
				go task.End(core.TaskCompleted, "", []byte("result"))
				synctest.Wait()
				end(task)
				<-time.After(2 * time.Hour)
				synctest.Wait()
				requireCount(t, ts, 0, 0, 0)
				close(wait)
				synctest.Wait()
				require.Equal(t, "unknown", show(task))
				require.Equal(t, "cancel cancelled", call.told())
				requireEmpty(t, ts, store.Memory)
			})
		})
	}
}

// TestAResultThatComesTooLateMayGo: no client reads it, so the store may have its room first, as with one that was fetched.
func TestAResultThatComesTooLateMayGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := make(chan struct{})
		store := &trickyStore{Memory: newMemory(), append: func(context.Context) error {
			<-wait
			return nil
		}}
		marks := 0
		store.mark = func() { marks++ }
		ts := newTestTasks(store, 0, 0)
		task := ts.Start(new(testCall), new(testCall), "", taskConfig)
		go task.End(core.TaskCompleted, "", []byte("result"))
		synctest.Wait()
		task.Stop()
		close(wait)
		synctest.Wait()
		require.Equal(t, "failed error shutdown", show(task))
		require.Equal(t, 1, marks)
		task.Fetched()
		require.Equal(t, 1, marks, "what was fetched is not in the store")
		task.Discard()
		synctest.Wait()
		requireEmpty(t, ts, store.Memory)
	})
}

// forgetfulStore has logs that find themselves anew at each append.
type forgetfulStore struct{ *trickyStore }

func (s forgetfulStore) Log(k eventstore.Key) eventstore.Log {
	return forgetfulLog{s.trickyStore.Log(k), s, k}
}

type forgetfulLog struct {
	eventstore.Log

	s forgetfulStore
	k eventstore.Key
}

func (l forgetfulLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	if err := l.s.append(ctx); err != nil {
		return err
	}
	return l.s.Memory.Log(l.k).Append(ctx, first, events, seal)
}

// TestTheStoreIsNotAskedForNothing: a task that has no result costs the store nothing, nor does one that was refused.
func TestTheStoreIsNotAskedForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &trickyStore{Memory: newMemory()}
		ts := newTestTasks(store, 1, 0)
		task := ts.Start(new(testCall), new(testCall), "", taskConfig)
		for range 10 {
			require.Nil(t, ts.Start(new(testCall), new(testCall), "", taskConfig))
		}
		task.Note("half")
		show(task)
		task.Stop()
		show(task)
		task.Fetched()
		task.Discard()
		synctest.Wait()
		require.Zero(t, store.logs.Load(), "logs")
		require.Zero(t, store.drops.Load(), "drops")
		require.Equal(t, fmt.Sprint(0, 0, 0), fmt.Sprint(ts.Count()))
	})
}
