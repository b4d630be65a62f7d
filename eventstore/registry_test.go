package eventstore

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type thing struct{ name string }

func TestRegistryForgetsWhatNobodyKeeps(t *testing.T) {
	var r registry[thing]
	kept := &thing{"kept"}
	r.add("kept", kept)
	r.add("held", &thing{"held"})
	r.hold("held", r.find("held"))
	for i := range 10_000 {
		r.add(strconv.Itoa(i), &thing{})
		if i%100 == 0 {
			runtime.GC()
			runtime.GC()
		}
	}
	verifyRegistry(t, &r)
	require.Less(t, r.size(), 1000, "those that were collected do not pile up")
	require.Same(t, kept, r.find("kept"))
	require.Equal(t, "held", r.find("held").name, "what is held stays although nothing else refers to it")
	runtime.GC()
	runtime.GC()
	require.Nil(t, r.find("9998"))
	require.NotNil(t, r.find("9999"), "one may stay that is not used any more")
	require.Equal(t, "9999", r.newestName)
	r.add(strings.Repeat("long", maxNewestName), &thing{})
	require.Equal(t, "9999", r.newestName, "but its name is short")
	runtime.GC()
	runtime.GC()
	require.Nil(t, r.find(strings.Repeat("long", maxNewestName)))

	r.release("held", r.find("held"))
	runtime.GC()
	runtime.GC()
	require.Nil(t, r.find("held"), "what was released does not stay")
	runtime.KeepAlive(kept)
}

func TestRegistryKnowsWhoseNameItIs(t *testing.T) {
	var r registry[thing]
	first, second := &thing{"first"}, &thing{"second"}
	r.add("a", first)
	r.hold("a", first)
	r.forget("a", first)
	r.add("a", second)
	for _, held := range []bool{false, true} {
		for _, late := range []func(string, *thing){r.hold, r.release, r.forget} {
			late("a", first)
			require.Same(t, second, r.find("a"), "the late one must not touch its successor")
			require.Equal(t, held, r.held["a"] != nil)
			verifyRegistry(t, &r)
		}
		r.hold("a", second)
	}
	r.forget("b", nil)
	r.hold("b", first)
	require.Nil(t, r.find("b"))
	require.Equal(t, 1, r.size())
	runtime.KeepAlive(second)
}

func TestRegistryGivesBackWhatACrowdLeft(t *testing.T) {
	for _, held := range []bool{true, false} {
		t.Run(fmt.Sprint("held ", held), func(t *testing.T) { crowd(t, held) })
	}
}

func crowd(t *testing.T, held bool) {
	var r registry[thing]
	things := make([]*thing, 100_000)
	before := heap()
	for i := range things {
		things[i] = &thing{strconv.Itoa(i)}
		r.add(things[i].name, things[i])
		if held {
			r.hold(things[i].name, things[i])
		}
	}
	full := heap() - before
	for _, p := range things[10:] {
		r.release(p.name, p)
		r.forget(p.name, p)
	}
	verifyRegistry(t, &r)
	require.Equal(t, 10, r.size())
	things = slices.Clone(things[:10])
	empty := heap() - before
	require.Less(t, empty, full/20)
	require.Same(t, things[3], r.find("3"))
	runtime.KeepAlive(&r)
}

func TestEvictedLogsAreForgottenWithTheirHandles(t *testing.T) {
	ctx := context.Background()
	m := NewMemory(MemoryConfig{SessionBytes: 64 << 10})
	for i := range 20_000 {
		l := m.Log(Key{Session: "s", Stream: strconv.Itoa(i)})
		require.NoError(t, l.Append(ctx, 1, [][]byte{make([]byte, 100)}, true))
		if i%500 == 0 {
			runtime.GC()
			runtime.GC()
		}
	}
	verify(t, m)
	s := m.sessions.find("s")
	require.Less(t, s.logs.size(), 3000, "an evicted log must not cost anything for ever")
	_, st, err := m.Log(Key{Session: "s", Stream: "0"}).Read(ctx, 0, nil, 0)
	require.NoError(t, err)
	require.Equal(t, State{First: 1}, st, "the store has never heard of it")
	require.Equal(t, &BehindError{}, m.Log(Key{Session: "s", Stream: "0"}).Append(ctx, 2, [][]byte{nil}, true))
}

func TestUnusedHandlesAreForgotten(t *testing.T) {
	m := NewMemory(MemoryConfig{})
	for i := range 20_000 {
		m.Log(Key{Session: strconv.Itoa(i), Stream: "a"})
		m.Log(Key{Session: "s", Stream: strconv.Itoa(i)})
		if i%500 == 0 {
			runtime.GC()
			runtime.GC()
		}
	}
	require.Less(t, m.sessions.size(), 3000, "a session that only had handles must not stay")
	verify(t, m)
}

func TestALogStaysWithoutAHandle(t *testing.T) {
	ctx := context.Background()
	m := NewMemory(MemoryConfig{})
	for i := range 10 {
		l := m.Log(Key{Session: fmt.Sprint(i % 3), Stream: fmt.Sprint(i)})
		require.NoError(t, l.Append(ctx, 1, [][]byte{[]byte(fmt.Sprint(i))}, i%2 == 0))
	}
	for range 3 {
		runtime.GC()
	}
	for i := range 10 {
		var buf [2]Event
		n, _, err := m.Log(Key{Session: fmt.Sprint(i % 3), Stream: fmt.Sprint(i)}).Read(ctx, 0, buf[:], 0)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, fmt.Sprint(i), string(buf[0].Data))
	}
}
