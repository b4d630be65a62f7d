package clustertest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
)

func memory() *cluster.Memory { return cluster.NewMemory(eventstore.MemoryConfig{}) }

func TestFaultyPassesTheExamsWhenNothingFails(t *testing.T) {
	clustertest.Run(t, clustertest.Features{VirtualTime: true}, func(testing.TB) clustertest.Engine {
		m := memory()
		f := clustertest.NewFaulty(m, m, nil)
		return clustertest.Engine{Directory: f, Store: f, Forget: m.Forget, Another: func(testing.TB) (cluster.Directory, eventstore.Store) {
			another := clustertest.NewFaulty(m, m, func(clustertest.Call) clustertest.Fault { return clustertest.Fault{} })
			return another, another
		}}
	})
	storetest.Run(t, storetest.Features{Bounded: true}, func(testing.TB) eventstore.Store {
		m := memory()
		return clustertest.NewFaulty(m, m, nil)
	})
}

var (
	errBefore = errors.New("before")
	errAfter  = errors.New("after")
	first     = eventstore.Fence{Incarnation: "a1", Epoch: 1}
	process   = cluster.Process{Cluster: "c", Incarnation: "a1", Self: "a"}
	record    = cluster.Record{Session: "s", Fence: first, Self: "a"}
)

// operations are all, by name. They fit together in the order of order.
func operations(f *clustertest.Faulty, l eventstore.Log) map[string]func(ctx context.Context) error {
	member := cluster.Member{Process: process, Generation: 1 << 50, Count: 1}
	return map[string]func(ctx context.Context) error{
		"join": func(ctx context.Context) error {
			_, err := f.Join(ctx, cluster.Member{Process: process, Generation: 1}, time.Second)
			return err
		},
		"renew": func(ctx context.Context) error { _, err := f.Renew(ctx, member, time.Second); return err },
		"leave": func(ctx context.Context) error { return f.Leave(ctx, member) },
		"put":   func(ctx context.Context) error { return f.Put(ctx, &record, time.Hour) },
		"find":  func(ctx context.Context) error { _, err := f.Find(ctx, "s", process); return err },
		"save":  func(ctx context.Context) error { return f.Save(ctx, "s", first, 1, []byte("saved")) },
		"touch": func(ctx context.Context) error {
			_, err := f.Touch(ctx, []cluster.Held{{Session: "s", Fence: first}}, time.Hour)
			return err
		},
		"append": func(ctx context.Context) error { return l.Append(ctx, 1, [][]byte{{1}, {2}}, false) },
		"read": func(ctx context.Context) error {
			_, _, err := l.Read(ctx, 0, make([]eventstore.Event, 2), 0)
			return err
		},
		"restore": func(ctx context.Context) error { return l.Restore(ctx, 1, [][]byte{{1}, {2}, {3}}, true) },
		"drop":    func(ctx context.Context) error { return l.Drop(ctx) },
		"release": func(ctx context.Context) error { return f.Release(ctx, "s", first) },
		"adopt": func(ctx context.Context) error {
			_, _, err := f.Adopt(ctx, "s", first, cluster.Member{Process: cluster.Process{Incarnation: "b1", Self: "b"}}, time.Hour)
			return err
		},
		"end":         func(ctx context.Context) error { return f.End(ctx, "s", eventstore.Fence{Incarnation: "b1", Epoch: 2}) },
		"dropsession": func(ctx context.Context) error { return f.DropSession(ctx, "s") },
	}
}

var order = []string{
	"join", "renew", "leave", "put", "find", "save", "touch", "append", "read", "restore", "drop", "release", "adopt", "end", "dropsession",
}

func handle(s eventstore.Store) eventstore.Log {
	return s.Log(eventstore.Key{Session: "s", Stream: "x", Fence: first})
}

func TestFaultyAsksTheScriptForEachCall(t *testing.T) {
	m := memory()
	var seen []clustertest.Call
	f := clustertest.NewFaulty(m, m, func(c clustertest.Call) clustertest.Fault {
		seen = append(seen, c)
		switch c.N {
		case 1:
			return clustertest.Fault{Before: errBefore, After: errAfter}
		case 2:
			return clustertest.Fault{After: errAfter}
		}
		return clustertest.Fault{}
	})
	l := handle(f)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for i, name := range order {
		op := operations(f, l)[name]
		for n, want := range []error{errBefore, errAfter, nil} {
			if err := op(t.Context()); !errors.Is(err, want) || err != nil && want == nil {
				t.Fatalf("%s, time %d: got error %v, want %v", name, n+1, err, want)
			}
		}
		if err := op(ended); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s with a context that has ended: %v", name, err)
		}
		if f.Count(name) != 4 || f.Count() != 4*(i+1) {
			t.Fatalf("%d calls of %s, %d in all", f.Count(name), name, f.Count())
		}
	}
	if f.Count("put", "adopt", "nothing") != 8 {
		t.Fatalf("%d calls", f.Count("put", "adopt", "nothing"))
	}
	for i, c := range seen { // three of each: not those with an ended context
		want := clustertest.Call{Op: order[i/3], N: i%3 + 1}
		switch c.Op {
		case "append", "restore", "read", "drop":
			want.Session, want.Stream = "s", "x"
			want.Events = map[string]int{"append": 2, "restore": 3}[c.Op]
		case "join", "renew", "leave", "touch":
		default:
			want.Session = "s"
		}
		if c != want {
			t.Fatalf("the script was asked about %+v, want %+v", c, want)
		}
	}
	names := slices.Sorted(maps.Keys(f.Calls()))
	if want := slices.Sorted(slices.Values(order)); !slices.Equal(names, want) {
		t.Fatalf("counted %v, want %v", names, want)
	}
}

// What a call did is looked up around the Faulty.
func TestFaultyDoesWhatItsErrorsSay(t *testing.T) {
	m := memory()
	var fault clustertest.Fault
	f := clustertest.NewFaulty(m, m, func(clustertest.Call) clustertest.Fault { return fault })
	find := func() error { _, err := m.Find(t.Context(), "s", process); return err }

	fault = clustertest.Fault{Before: errBefore}
	if err := f.Put(t.Context(), &record, time.Hour); !errors.Is(err, errBefore) || !errors.Is(find(), cluster.ErrUnknown) {
		t.Fatalf("a Put that failed before: %v, then %v", err, find())
	}
	fault = clustertest.Fault{After: errAfter}
	if err := f.Put(t.Context(), &record, time.Hour); !errors.Is(err, errAfter) || find() != nil {
		t.Fatalf("a Put whose answer was lost: %v, then %v", err, find())
	}
	found, err := f.Find(t.Context(), "s", process)
	if !errors.Is(err, errAfter) || found.Record != nil {
		t.Fatalf("a Find whose answer was lost: %+v, %v", found, err)
	}
}

// inBubble gives do a Faulty around a memory that has a record and a member.
func inBubble(t *testing.T, do func(t *testing.T, m *cluster.Memory, f *clustertest.Faulty)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := memory()
		if err := m.Put(t.Context(), &record, time.Hour); err != nil {
			t.Fatal(err)
		}
		do(t, m, clustertest.NewFaulty(m, m, nil))
	})
}

func state(t *testing.T, m *cluster.Memory) string {
	t.Helper()
	found, err := m.Find(t.Context(), "s", process)
	if err != nil {
		t.Fatal(err)
	}
	return string(found.Record.State)
}

func TestFaultyDelays(t *testing.T) {
	inBubble(t, func(t *testing.T, m *cluster.Memory, f *clustertest.Faulty) {
		var version uint64
		save := func(patience time.Duration, fault clustertest.Fault) (waited time.Duration, err error) {
			f.SetScript(func(clustertest.Call) clustertest.Fault { return fault })
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			start := time.Now()
			version++
			err = f.Save(ctx, "s", first, version, fmt.Append(nil, fault.Delay, fault.DelayAnswer, fault.Late))
			return time.Since(start), err
		}
		for _, c := range []struct {
			fault  clustertest.Fault
			waits  time.Duration
			err    error
			done   bool // when the call returns
			inTime bool // a minute later
		}{
			{clustertest.Fault{Delay: time.Second}, time.Second, nil, true, true},
			{clustertest.Fault{DelayAnswer: 2 * time.Second}, 2 * time.Second, nil, true, true},
			{clustertest.Fault{Delay: time.Second, DelayAnswer: 2 * time.Second}, 3 * time.Second, nil, true, true},
			{clustertest.Fault{Delay: 20 * time.Second}, 10 * time.Second, context.DeadlineExceeded, false, false},
			{clustertest.Fault{Delay: 20 * time.Second, Late: true}, 10 * time.Second, context.DeadlineExceeded, false, true},
			{clustertest.Fault{DelayAnswer: 20 * time.Second}, 10 * time.Second, context.DeadlineExceeded, true, true},
		} {
			start := time.Now()
			waited, err := save(10*time.Second, c.fault)
			mine := fmt.Sprint(c.fault.Delay, c.fault.DelayAnswer, c.fault.Late)
			if waited != c.waits || !errors.Is(err, c.err) || (state(t, m) == mine) != c.done {
				t.Errorf("%+v: waited %v, %v; the state is %q", c.fault, waited, err, state(t, m))
			}
			<-time.After(20*time.Second - time.Since(start) + time.Nanosecond) // a late call comes when its delay is over
			synctest.Wait()
			if (state(t, m) == mine) != c.inTime {
				t.Errorf("%+v, later: the state is %q", c.fault, state(t, m))
			}
		}
	})
}

func TestFaultyBlocks(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(t *testing.T, m *cluster.Memory, f *clustertest.Faulty) {
			block := make(chan struct{})
			f.SetScript(func(clustertest.Call) clustertest.Fault { return clustertest.Fault{Block: block, Late: late} })
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			events := [][]byte{[]byte("1")}
			if err := handle(f).Append(ctx, 1, events, false); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			events[0] = []byte("the slice is the caller's again")
			answer := make(chan error, 1)
			go func() { answer <- f.Save(t.Context(), "s", first, 1, []byte("saved")) }()
			synctest.Wait()
			if len(answer) > 0 || state(t, m) != "" {
				t.Fatal("a call went through while it was blocked")
			}
			close(block)
			if err := <-answer; err != nil || state(t, m) != "saved" {
				t.Fatalf("a call that is blocked no longer: %v, %q", err, state(t, m))
			}
			synctest.Wait()
			buf := make([]eventstore.Event, 2)
			n, _, err := handle(m).Read(t.Context(), 0, buf, 0)
			if err != nil || (n == 1) != late || late && string(buf[0].Data) != "1" {
				t.Fatalf("Late %v: the log has %d events, %v", late, n, err)
			}
		})
	}
}

func TestFaultyLinks(t *testing.T) {
	inBubble(t, func(t *testing.T, m *cluster.Memory, f *clustertest.Faulty) {
		other := clustertest.NewFaulty(m, m, nil)
		var version uint64
		save := func(s string, patience time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			version++
			return f.Save(ctx, "s", first, version, []byte(s))
		}
		want := func(when string, err, want error, saved string) {
			t.Helper()
			if !errors.Is(err, want) || err != nil && want == nil || state(t, m) != saved {
				t.Fatalf("%s: got %v, want %v; the state is %q, want %q", when, err, want, state(t, m), saved)
			}
		}
		want("up", save("1", time.Second), nil, "1")
		f.SetLink(clustertest.Refused)
		start := time.Now()
		want("refused", save("2", time.Second), clustertest.ErrUnreachable, "1")
		f.SetLink(clustertest.Silent)
		want("silent", save("3", time.Second), context.DeadlineExceeded, "1")
		f.SetLink(clustertest.Deaf)
		want("deaf", save("4", time.Second), context.DeadlineExceeded, "4")
		if waited := time.Since(start); waited != 2*time.Second {
			t.Fatalf("waited %v, want a second while silent and one while deaf", waited)
		}
		for link, healed := range map[clustertest.Link]error{clustertest.Silent: nil, clustertest.Deaf: clustertest.ErrUnreachable} {
			f.SetLink(link)
			saved := fmt.Sprint("link ", link)
			answer := make(chan error, 1)
			go func() { answer <- save(saved, time.Hour) }()
			synctest.Wait()
			if len(answer) > 0 {
				t.Fatalf("link %d: the call returned %v", link, <-answer)
			}
			if _, err := other.Touch(t.Context(), nil, time.Hour); err != nil {
				t.Fatalf("another process: %v", err)
			}
			f.SetLink(clustertest.Up)
			want(fmt.Sprintf("healed from %d", link), <-answer, healed, saved)
		}

		if f.Instant() {
			t.Fatal("a Faulty is Instant by itself")
		}
		f.SetInstant(true)
		if !f.Instant() || eventstore.AccountantOf(f) == nil {
			t.Fatal("not Instant, or no Accountant")
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		want("closed", save("5", time.Second), eventstore.ErrClosed, state(t, m))
		if _, err := other.Touch(t.Context(), nil, time.Hour); err != nil {
			t.Fatalf("another process, when one has closed its way: %v", err)
		}
	})
}
