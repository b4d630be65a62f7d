package scenario

import (
	"context"
	"fmt"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// redisMemory measures what an engine holds.
func redisMemory() Scenario {
	return Scenario{
		ID:    "redis-memory",
		Title: "What 10,000 sessions and their events take in Redis",
		Text: "`used_memory` of Redis after a step minus that before it, for each unit. The clients say of themselves what is usual " +
			"(name, title, version, address, three capabilities), and the app saves nothing. Then each session makes a call that is " +
			"answered with a stream of one event of about 110 bytes, then one that sends a notification before, appended on its own. " +
			"At last one call sends 100,000 notifications as fast as it can, which are appended many at once. `data` is what of the " +
			"last are their own bytes.",
		Metrics: []results.Metric{
			{Key: "session", Title: "B/idle session", Less: true},
			{Key: "call", Title: "B/stored call", Less: true},
			{Key: "two", Title: "B/stored call with a notification", Less: true},
			{Key: "event", Title: "B/event of many", Less: true},
			{Key: "data", Title: "data B/event of many", Less: true, Plain: true},
		},
		Subjects: []string{"rejoin-redis-sse"},
		Base:     itself,
		Rounds:   1,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			return withRedisServer(ctx, proc.Spec{Subject: name, StoreBytes: manyBytes, CPU: env.Server}, env.Client, func(t target) redisMemoryJob {
				return redisMemoryJob{target: t, Sessions: Pick(env, 10_000, 100), Events: Pick(env, 100_000, 2_000)}
			})
		},
	}
}

type redisMemoryJob struct {
	target

	Sessions, Events int
}

var _ = proc.Work(func(ctx context.Context, j redisMemoryJob) (map[string]float64, error) { return j.run(ctx) })

func (j redisMemoryJob) run(ctx context.Context) (map[string]float64, error) {
	r, err := redisAt(j.Redis)
	if err != nil {
		return nil, err
	}
	defer r.close()
	values, before := map[string]float64{}, int64(0)
	note := func(key string, n int) error {
		u, err := r.use(ctx)
		if key != "" {
			values[key] = float64(u.Memory-before) / float64(n)
		}
		before = u.Memory
		return err
	}
	long, err := j.open(ctx, 1)
	if err == nil {
		err = note("", 1)
	}
	if err != nil {
		return nil, err
	}
	sessions := make([]string, j.Sessions)
	err = j.each(ctx, j.Sessions, 8, func(c *load.Conn, i int) (err error) {
		sessions[i], err = load.OpenTypical(c)
		return err
	})
	if err == nil {
		err = note("session", j.Sessions)
	}
	if err != nil {
		return nil, err
	}
	for _, kind := range []struct{ key, tool, arguments, answer string }{
		{"call", subject.Echo, `{"text":"the text of a call, which is given back"}`, "the text of a call, which is given back"},
		{"two", subject.Burst, `{"n":1}`, "done"},
	} {
		err := j.each(ctx, j.Sessions, 8, func(c *load.Conn, i int) error {
			return answered(c, load.Post(sessions[i], load.Call(1, kind.tool, kind.arguments)), 1, kind.answer)
		})
		if err == nil {
			err = note(kind.key, j.Sessions)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.key, err)
		}
	}
	data := 0
	err = j.each(ctx, 1, 1, func(c *load.Conn, _ int) error {
		if err := start(c, load.Post(long[0], load.Call(1, subject.Burst, fmt.Sprintf(`{"n":%d}`, j.Events)))); err != nil {
			return err
		}
		seen := trace{each: func(e load.Event) { data += len(e.Data) }}
		if err := seen.read(c, 1, "done", nil); err != nil || seen.events == j.Events {
			return err
		}
		return fmt.Errorf("%d of %d events came", seen.events, j.Events)
	})
	if err != nil {
		return nil, err
	}
	values["data"] = float64(data) / float64(j.Events)
	return values, note("event", j.Events)
}
