package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
)

func memory() *eventstore.Memory { return eventstore.NewMemory(eventstore.MemoryConfig{}) }

func TestFaultyPassesTheExamWhenNothingFails(t *testing.T) {
	for name, script := range map[string]func(string, int) error{
		"no script":    nil,
		"empty script": func(string, int) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.Features{Bounded: true}, func(testing.TB) eventstore.Store {
				return storetest.Faulty(memory(), script)
			})
		})
	}
}

func TestFaultyAsksTheScript(t *testing.T) {
	ctx := context.Background()
	var mu sync.Mutex
	var asked []string
	errScript := errors.New("the script says so")
	s := storetest.Faulty(memory(), func(op string, n int) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, fmt.Sprint(op, n))
		if n == 2 {
			return errScript
		}
		return nil
	})
	l := s.Log(eventstore.Key{Session: "s", Stream: "a"})
	do := func(want error, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("got error %v, want %v", err, want)
		}
	}
	state := func() (st eventstore.State, err error) {
		_, st, err = l.Read(ctx, 0, nil, 0)
		return st, err
	}
	do(nil, l.Append(ctx, 1, [][]byte{[]byte("1")}, false))
	do(errScript, l.Append(ctx, 2, [][]byte{[]byte("2")}, false))
	st, err := state()
	do(nil, err)
	if st.Last != 1 {
		t.Fatalf("an append that the script refused was recorded: %+v", st)
	}
	_, err = state()
	do(errScript, err)
	do(nil, l.Append(ctx, 2, [][]byte{[]byte("2")}, false))
	do(nil, l.Restore(ctx, 1, [][]byte{[]byte("1"), []byte("2")}, false))
	do(errScript, l.Restore(ctx, 1, [][]byte{[]byte("1"), []byte("2"), []byte("3")}, false))
	// The count is the store's, not the log's.
	do(nil, s.Log(eventstore.Key{Session: "s", Stream: "b"}).Drop(ctx))
	do(errScript, l.Drop(ctx))
	do(nil, s.DropSession(ctx, "other"))
	do(errScript, s.DropSession(ctx, "s"))
	st, err = state()
	do(nil, err)
	if st.Last != 2 {
		t.Fatalf("a drop that the script refused went through: %+v", st)
	}
	if bytes, _ := eventstore.AccountantOf(s).Usage(); bytes == 0 {
		t.Fatal("Usage does not reach the store")
	}
	do(nil, l.Drop(ctx))
	if bytes, _ := eventstore.AccountantOf(s).Usage(); bytes != 0 {
		t.Fatal("a drop that the script allowed did nothing")
	}
	do(nil, s.DropSession(ctx, "s"))

	want := "[append1 append2 read1 read2 append3 restore1 restore2 drop1 drop2 dropsession1 dropsession2 read3 drop3 dropsession3]"
	if got := fmt.Sprint(asked); got != want {
		t.Fatalf("the script was asked\n%s, want\n%s", got, want)
	}
}

func TestFaultyHonoursTheContextWhileTheScriptBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		s := storetest.Faulty(memory(), func(op string, _ int) error {
			if op != "read" {
				<-block
			}
			return nil
		})
		l := s.Log(eventstore.Key{Session: "s", Stream: "a"})
		start := time.Now()
		for name, op := range map[string]func(context.Context) error{
			"append":      func(ctx context.Context) error { return l.Append(ctx, 1, [][]byte{[]byte("1")}, false) },
			"restore":     func(ctx context.Context) error { return l.Restore(ctx, 1, [][]byte{[]byte("1")}, false) },
			"drop":        l.Drop,
			"dropsession": func(ctx context.Context) error { return s.DropSession(ctx, "s") },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if err := op(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want the context's error", name, err)
			}
			cancel()
		}
		if waited := time.Since(start); waited != 20*time.Second {
			t.Errorf("four operations of 5 s took %v", waited)
		}
		close(block) // the scripts return; what they let pass must not happen any more
		synctest.Wait()
		_, st, err := l.Read(t.Context(), 0, nil, 0)
		if err != nil || st.Last != 0 {
			t.Errorf("an operation went on after its context had ended: %+v, %v", st, err)
		}
		if err := l.Append(t.Context(), 1, [][]byte{[]byte("1")}, false); err != nil {
			t.Errorf("append when the script no longer blocks: %v", err)
		}
	})
}

func TestFaultyDoesNotShowEndedContextsToTheScript(t *testing.T) {
	var got []int
	s := storetest.Faulty(memory(), func(_ string, n int) error {
		got = append(got, n)
		return nil
	})
	l := s.Log(eventstore.Key{Session: "s", Stream: "a"})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Append(ended, 1, [][]byte{nil}, false); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := l.Append(context.Background(), 1, [][]byte{nil}, false); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "[2]" {
		t.Fatalf("the script was asked for calls %v, want the second", got)
	}
}
