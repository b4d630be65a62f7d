package engine

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/core"
)

// TestTasksAreSmall: what a task takes while its call works, while it asks, and while it waits with a small result, without its call. Other tests
// may run at the same time, so the limits are far above what is measured.
func TestTasksAreSmall(t *testing.T) {
	const tasks, result = 2000, 200
	store := newMemory()
	ts := newTestTasks(store, 0, 0)
	call := new(testCall)
	held := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	all := make([]*Task, tasks)
	for i := range all {
		all[i] = ts.Start(call, call, "alice", taskConfig)
		all[i].Note("half")
		show(all[i])
	}
	measure := func(name string, limit int64) {
		share := (held() - before) / tasks
		t.Logf("%s: %d bytes", name, share)
		require.Less(t, share, limit, name)
	}
	measure("working", 1500)
	request := []byte(`{"method":"elicitation/create"}`)
	for i := range all {
		all[i].Ask([]*TaskQuestion{{Key: "r1.confirm", Request: request, Round: 1}})
	}
	measure("asking", 3<<10)
	for i := range all {
		all[i].Answer(answer("r1.confirm", `{"action":"accept"}`))
	}
	call.told()
	measure("working again", 3<<10)
	for i := range all {
		all[i].End(core.TaskCompleted, "", bytes.Repeat([]byte{'x'}, result))
		show(all[i])
	}
	measure(fmt.Sprintf("with a result of %d bytes", result), 4<<10)
	for i := range all {
		all[i].Discard()
		all[i] = nil
	}
	requireEmpty(t, ts, store)
	measure("gone", 200)
	runtime.KeepAlive(ts)
}

// TestTaskAllocations: polls, progress that says nothing new, and ticks allocate next to nothing.
func TestTaskAllocations(t *testing.T) {
	ts := newTestTasks(newMemory(), 0, 0)
	task := ts.Start(new(testCall), new(testCall), "alice", taskConfig)
	task.Note("half")
	w := NewTaskWatcher()
	w.Watch(task)
	for name, c := range map[string]struct {
		do     func()
		budget float64
	}{
		"view":              {func() { task.View() }, 0},
		"find":              {func() { ts.Find(task.id, "alice") }, 0},
		"the same note":     {func() { task.Note("half") }, 0},
		"a note":            {func() { task.Note("more"); task.Note("half") }, 0},
		"an empty update":   {func() { task.Answer(nil) }, 0},
		"a tick":            {task.tick, 0},
		"a watched change":  {func() { task.Note("more"); w.Next(); task.Note("half"); w.Next() }, 2},
		"adjust":            {func() { task.Adjust(core.TaskConfig{AbandonAfter: time.Hour}) }, 0},
		"watch and unwatch": {func() { w.Stop(task); w.Watch(task) }, 3},
	} {
		require.LessOrEqual(t, testing.AllocsPerRun(200, c.do), c.budget, name)
	}
	task.Discard()
}
