package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// taskSubjects are the servers that have tasks.
var taskSubjects = []string{"rejoin-modern-tasks", "rejoin-gosdk-modern-tasks", "rejoin-mcpgo-modern-tasks"}

var taskMemoryMetrics = []results.Metric{
	{Key: "answered", Title: "heap B once answered", Less: true},
	{Key: "answered-stack", Title: "stack B once answered", Less: true, Plain: true},
	{Key: "answered-rss", Title: "RSS B once answered", Less: true},
	{Key: "answered-goroutines", Title: "goroutines once answered", Less: true, Plain: true},
	{Key: "lost", Title: "lost", Less: true, Plain: true},
}

// taskPolls measures many tasks whose clients poll.
func taskPolls() []Scenario {
	return []Scenario{{
		ID:    "tasks-polled",
		Title: "10,000 tasks, each polled every 5 s",
		Text: "The calls of version 2026-07-28 have become tasks. For 20 s each task is polled every 5 s with `tasks/get`, over 64 connections. Then all " +
			"tools end at once. Every client polls until it has its result, and once more: it must get the same bytes. Each result has a text of its " +
			"own. `lost` counts results that did not come, `wrong` those that were another task's or changed. Server and load have a CPU each. The " +
			"resident set is measured after a collection, before the polls.",
		Metrics: []results.Metric{
			{Key: "tasks", Title: "tasks", Plain: true},
			{Key: "polls/s", Title: "polls/s", Plain: true},
			{Key: "cpu", Title: "CPU s per s", Less: true},
			{Key: "poll", Title: "CPU µs/poll", Less: true},
			{Key: "late", Title: "polls that began late, p99, ms", Less: true, Plain: true},
			{Key: "rss", Title: "RSS MiB", Less: true},
			{Key: "rss-task", Title: "RSS B/task", Less: true},
			{Key: "goroutines", Title: "goroutines/task", Less: true, Plain: true},
			{Key: "drain", Title: "all results, s", Less: true, Plain: true},
			{Key: "lost", Title: "lost", Less: true, Plain: true},
			{Key: "wrong", Title: "wrong", Less: true, Plain: true},
		},
		Subjects: taskSubjects,
		Base:     func(name string) string { return name }, // each row is its own base: no other Go server has tasks
		Rounds:   1,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			return withServer(ctx, proc.Spec{Subject: name, CPU: env.Server}, env.Client, func(t target) tasksJob {
				return tasksJob{
					target: t, Tasks: Pick(env, 10_000, 200), Conns: 64,
					Every: Pick(env, 5*time.Second, 200*time.Millisecond), Time: Pick(env, 20*time.Second, 500*time.Millisecond),
				}
			})
		},
	}}
}

// makeTask makes a call that its tool makes a task at once, and returns the task's id. The result of the call will contain its number.
func makeTask(c *load.Conn, number int) (string, error) {
	if err := c.Send(load.CallModern(number, subject.Hold, fmt.Sprintf(`{"close":true,"text":" %d"}`, number), true)); err != nil {
		return "", err
	}
	h, err := c.Head()
	if err != nil {
		return "", err
	}
	answer, err := c.Answer(h)
	if err != nil {
		return "", err
	}
	_, after, _ := bytes.Cut(answer, []byte(`"taskId":"`))
	id, _, ok := bytes.Cut(after, []byte(`"`))
	if h.Status != http.StatusOK || !ok || !bytes.Contains(answer, []byte(`"resultType":"task"`)) {
		return "", fmt.Errorf("status %d, not a task: %.300s", h.Status, answer)
	}
	return string(id), nil
}

// getTask asks once for the task that call number has become. ended reports whether it has ended; ok, whether it is completed with its own result.
// answer is valid until the next request on the connection.
func getTask(c *load.Conn, number int, id string) (answer []byte, ended, ok bool, err error) {
	if err := c.Send(load.GetTask(number, id)); err != nil {
		return nil, false, false, err
	}
	h, err := c.Head()
	if err != nil {
		return nil, false, false, err
	}
	if answer, err = c.Answer(h); err != nil {
		return nil, false, false, err
	}
	if h.Status != http.StatusOK || !bytes.Contains(answer, []byte(`"taskId":"`+id+`"`)) {
		return nil, false, false, fmt.Errorf("status %d, not the task %s: %.300s", h.Status, id, answer)
	}
	if bytes.Contains(answer, []byte(`"status":"working"`)) {
		return answer, false, false, nil
	}
	ok = bytes.Contains(answer, []byte(`"status":"completed"`)) && isAnswer(answer, number, fmt.Sprintf("%s %d", released, number))
	return answer, true, ok, nil
}

// waitForTask asks until the task has ended. A tool may not have noticed yet that the gate is open.
func waitForTask(c *load.Conn, number int, id string) (answer []byte, ended, ok bool, err error) {
	const patience = 1000 // polls
	for range patience {
		if answer, ended, ok, err = getTask(c, number, id); ended || err != nil {
			break
		}
	}
	return answer, ended, ok, err
}

// tasks measures calls that are tasks. When the results are there, it fetches all of them.
func (m *memory) tasks(ctx context.Context) error {
	err := m.each(ctx, 1, 1, func(c *load.Conn, _ int) error {
		return answered(c, load.CallModern(1, subject.Echo, `{"text":"hello"}`, true), 1, "hello")
	})
	if err != nil {
		return err
	}
	if err := m.prepare(ctx, 0); err != nil {
		return err
	}
	ids := make([]string, m.Units)
	err = m.each(ctx, m.Units, 16, func(c *load.Conn, i int) error {
		var err error
		ids[i], err = makeTask(c, i+1)
		return err
	})
	if err != nil {
		return err
	}
	s, err := m.measure(ctx, m.Units)
	if err != nil {
		return err
	}
	m.note(s)
	if s, err = m.release(ctx); err != nil {
		return err
	}
	m.values["answered-stack"] = m.perUnit(s.Stack, m.base.Stack)
	m.values["answered-rss"] = m.perUnit(s.RSS, m.base.RSS)
	var lost atomic.Int64
	err = m.each(ctx, m.Units, 16, func(c *load.Conn, i int) error {
		answer, ended, ok, err := waitForTask(c, i+1, ids[i])
		switch {
		case err != nil:
		case !ended:
			lost.Add(1)
		case !ok:
			err = fmt.Errorf("not its result: %.300s", answer)
		}
		return err
	})
	m.values["lost"] = float64(lost.Load())
	return err
}

type tasksJob struct {
	target

	Tasks, Conns int
	Every, Time  time.Duration
}

var _ = proc.Work(func(ctx context.Context, j tasksJob) (map[string]float64, error) {
	ctl, err := proc.Connect(j.Admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ctl.Close() }()
	p := polling{tasksJob: j, ctl: ctl, ids: make([]string, j.Tasks), values: map[string]float64{"tasks": float64(j.Tasks)}}
	for _, step := range []func(context.Context) error{p.begin, p.poll, p.drain} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return p.values, nil
})

// polling is one measurement. Task i is that of call i+1.
type polling struct {
	tasksJob

	ctl    *proc.Control
	ids    []string
	values map[string]float64
}

// begin makes the tasks.
func (p *polling) begin(ctx context.Context) error {
	if err := settled(ctx, p.ctl, 0); err != nil {
		return err
	}
	before, err := p.ctl.Sample(true)
	if err != nil {
		return err
	}
	err = p.each(ctx, p.Tasks, p.Conns, func(c *load.Conn, i int) error {
		var err error
		p.ids[i], err = makeTask(c, i+1)
		return err
	})
	if err != nil {
		return err
	}
	if err := settled(ctx, p.ctl, before.Goroutines+p.Tasks); err != nil {
		return err
	}
	after, err := p.ctl.Sample(true)
	if err != nil {
		return err
	}
	p.values["rss"] = float64(after.RSS) / (1 << 20)
	p.values["rss-task"] = float64(after.RSS-before.RSS) / float64(p.Tasks)
	p.values["goroutines"] = float64(after.Goroutines-before.Goroutines) / float64(p.Tasks)
	return nil
}

// poll lets every client poll at its times.
func (p *polling) poll(ctx context.Context) error {
	before, err := p.ctl.Sample(false)
	if err != nil {
		return err
	}
	late, took, err := p.paced(ctx, p.Tasks, p.Conns, p.Every, p.Time, func(c *load.Conn, i int) error {
		answer, ended, _, err := getTask(c, i+1, p.ids[i])
		if ended {
			err = fmt.Errorf("it ended before the gate opened: %.300s", answer)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	after, err := p.ctl.Sample(false)
	if err != nil {
		return err
	}
	notePolls(p.values, before, after, late, took)
	return nil
}

// drain opens the gate, and lets all clients fetch their results, twice.
func (p *polling) drain(ctx context.Context) error {
	began := time.Now()
	if err := p.ctl.OpenGate(); err != nil {
		return err
	}
	var lost, wrong atomic.Int64
	seed, first := maphash.MakeSeed(), make([]uint64, p.Tasks)
	err := p.each(ctx, p.Tasks, p.Conns, func(c *load.Conn, i int) error {
		answer, ended, ok, err := waitForTask(c, i+1, p.ids[i])
		switch {
		case err != nil:
			return err
		case !ended:
			lost.Add(1)
		case !ok:
			wrong.Add(1)
		}
		first[i] = maphash.Bytes(seed, answer)
		return nil
	})
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	p.values["drain"] = time.Since(began).Seconds()
	if lost.Load() == 0 {
		err = p.each(ctx, p.Tasks, p.Conns, func(c *load.Conn, i int) error {
			again, _, _, err := getTask(c, i+1, p.ids[i])
			if err == nil && maphash.Bytes(seed, again) != first[i] {
				wrong.Add(1)
			}
			return err
		})
	}
	p.values["lost"], p.values["wrong"] = float64(lost.Load()), float64(wrong.Load())
	return errors.Join(err, ctx.Err())
}
