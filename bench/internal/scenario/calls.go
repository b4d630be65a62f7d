package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

var callMetrics = []results.Metric{
	{Key: "calls/s", Title: "calls/s"},
	{Key: "p50", Title: "p50 µs", Less: true},
	{Key: "p99", Title: "p99 µs", Less: true},
	{Key: "cpu", Title: "CPU s/10k calls", Less: true},
	{Key: "allocs", Title: "allocs/call", Less: true},
	{Key: "alloc bytes", Title: "B alloc/call", Less: true},
	{Key: "writes", Title: "writes/call", Less: true},
	{Key: "sent", Title: "B sent/call", Less: true},
}

const callsText = "16 clients, each with a session and a connection of its own, call the tool `echo` and wait for the answer before they call again. After 0.15 s of " +
	"warm-up, 0.5 s are measured. Every call has a text of its own, which the answer must contain."

// calls measures plain tool calls.
func calls() []Scenario {
	return []Scenario{
		{
			ID:      "calls-pinned",
			Title:   "tools/call, 16 clients, a core for the server",
			Text:    callsText + " The server has one CPU (GOMAXPROCS=1), the load another, so the rate is what one core can serve.",
			Metrics: callMetrics,
			Subjects: []string{
				"bare-json", "null", "rejoin-json", "rejoin-chi", "rejoin-echo", "rejoin-gin",
				"gosdk-json", "rejoin-gosdk-json", "gosdk-json-raw", "rejoin-gosdk-json-raw", "gosdk-stateless-json", "gosdk-stateless-json-raw",
				"mcpgo-json", "rejoin-mcpgo-json", "mcpgo-stateless",
				"bare-sse", "bare-sse-store", "rejoin-sse",
				"gosdk-sse", "gosdk-sse-raw", "gosdk-sse-store", "rejoin-gosdk-sse", "gosdk-sse-store-raw", "rejoin-gosdk-sse-raw",
				"mcpgo-sse", "mcpgo-sse-store", "rejoin-mcpgo-sse",
			},
			Rounds: 5,
			Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
				return runCalls(ctx, env, name, env.Server, env.Client)
			},
		},
		{
			ID:      "calls-shared",
			Title:   "tools/call, 16 clients, all on two cores",
			Text:    callsText + " Server and load share all cores.",
			Metrics: callMetrics,
			Subjects: []string{
				"bare-json", "rejoin-json", "gosdk-json", "rejoin-gosdk-json", "mcpgo-json", "rejoin-mcpgo-json",
				"bare-sse", "bare-sse-store", "rejoin-sse", "gosdk-sse-store", "rejoin-gosdk-sse", "mcpgo-sse-store", "rejoin-mcpgo-sse",
			},
			Rounds: 5,
			Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
				return runCalls(ctx, env, name, proc.AnyCPU, proc.AnyCPU)
			},
		},
	}
}

func runCalls(ctx context.Context, env *Env, name string, server, client int) (map[string]float64, error) {
	return withServer(ctx, proc.Spec{Subject: name, CPU: server}, client, func(t target) callsJob { return newCalls(env, name, t) })
}

func newCalls(env *Env, name string, t target) callsJob {
	s, _ := subject.Find(name)
	return callsJob{
		target: t, Clients: 16, Modern: s.Modern, Tasks: s.Tasks,
		Warm: Pick(env, 150*time.Millisecond, 10*time.Millisecond), Count: Pick(env, 500*time.Millisecond, 30*time.Millisecond),
	}
}

type callsJob struct {
	target

	Clients       int
	Warm, Count   time.Duration
	Alone         time.Duration // how long one client calls after the others have ended; 0: that is not measured
	Modern, Tasks bool          // as in subject.Subject
	Engine        bool          // the calls of the cluster's engine are a value too
	Dials         bool          // and the connections that are made to forward calls
}

var _ = proc.Work(func(ctx context.Context, j callsJob) (map[string]float64, error) { return j.run(ctx) })

func (j callsJob) run(ctx context.Context) (map[string]float64, error) {
	ctl, err := proc.Connect(j.Admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ctl.Close() }()
	var sessions []string
	if !j.Modern {
		if sessions, err = j.open(ctx, j.Clients); err != nil {
			return nil, err
		}
	}
	callers := make([]caller, j.Clients)
	for i := range callers {
		c, hangUp, err := j.dial(ctx)
		if err != nil {
			return nil, err
		}
		defer hangUp()
		request := load.CallModern(load.Number, subject.Echo, callArguments, j.Tasks)
		if !j.Modern {
			request = echoCall(sessions[i])
		}
		callers[i] = newCaller(c, request, load.Number+i*10_000_000)
	}
	if _, _, err := callAll(callers, j.Warm); err != nil {
		return nil, fmt.Errorf("warming up: %w", err)
	}
	before, err := ctl.SampleBefore()
	if err != nil {
		return nil, err
	}
	cost, err := j.costs(ctx)
	if err != nil {
		return nil, err
	}
	took, times, err := callAll(callers, j.Count)
	if err != nil {
		return nil, err
	}
	after, err := ctl.Sample(false)
	if err != nil {
		return nil, err
	}
	n := float64(len(times))
	v := perUnit(before, after, n)
	slices.Sort(times)
	values := map[string]float64{
		"calls/s": n / took.Seconds(), "p50": micros(quantile(times, 0.5)), "p99": micros(quantile(times, 0.99)),
		"cpu":    v.cpu / 100, // from µs/call
		"allocs": v.allocs, "alloc bytes": float64(after.Bytes-before.Bytes) / n, "writes": v.writes, "sent": v.sent,
	}
	if j.Engine {
		values["trips"] = v.trips
	}
	if err := cost.add(ctx, values, n); err != nil {
		return nil, err
	}
	if j.Dials {
		values["dials"] = float64(after.Accepted-before.Accepted) / n
	}
	if j.Alone > 0 {
		_, times, err := callAll(callers[:1], j.Alone)
		if err != nil {
			return nil, fmt.Errorf("alone: %w", err)
		}
		slices.Sort(times)
		values["alone"] = micros(quantile(times, 0.5))
	}
	return values, nil
}

// callAll lets all callers make calls until d is over, at least one each. It returns the time until the last answer, and the time of each
// call.
func callAll(callers []caller, d time.Duration) (time.Duration, []time.Duration, error) {
	times := make([][]time.Duration, len(callers))
	errs := make([]error, len(callers))
	began := time.Now()
	end := began.Add(d)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			times[i], errs[i] = callers[i].until(end, make([]time.Duration, 0, 10_000))
		})
	}
	wg.Wait()
	return time.Since(began), slices.Concat(times...), errors.Join(errs...)
}

// callText is in the arguments of the calls, and must be in their answers.
const callText = `"text":"the text of call %d, to be given back"`

// answerTo returns the two texts that the answer to a call must contain.
func answerTo(number int) [2]load.Template {
	return [2]load.Template{load.NewTemplate(fmt.Appendf(nil, `"id":%d`, number)), load.NewTemplate(fmt.Appendf(nil, callText, number))}
}

// caller makes calls over one connection. Each call has a number of its own, which is its id and its progress token, and is in its text.
type caller struct {
	conn    *load.Conn
	number  int
	request load.Template
	want    [2]load.Template
}

var callArguments = fmt.Sprintf("{"+callText+"}", load.Number)

// echoCall is the call that callers make in a session.
func echoCall(session string) []byte {
	return load.Post(session, load.Call(load.Number, subject.Echo, callArguments))
}

// newCaller makes a caller from the request with load.Number. Its first call has the number after first.
func newCaller(c *load.Conn, request []byte, first int) caller {
	return caller{conn: c, number: first, request: load.NewTemplate(request), want: answerTo(load.Number)}
}

// until makes calls until end, and appends the time of each call to times.
func (c *caller) until(end time.Time, times []time.Duration) ([]time.Duration, error) {
	for now := time.Now(); ; {
		if err := c.call(); err != nil {
			return nil, fmt.Errorf("call %d: %w", c.number, err)
		}
		then := now
		now = time.Now()
		times = append(times, now.Sub(then))
		if now.After(end) {
			return times, nil
		}
	}
}

func (c *caller) call() error {
	c.number++
	c.request.Set(c.number)
	if err := c.conn.Send(c.request.Raw); err != nil {
		return err
	}
	h, err := c.conn.Head()
	if err != nil {
		return err
	}
	answer, err := c.conn.Answer(h)
	if err != nil {
		return err
	}
	for _, want := range c.want {
		want.Set(c.number)
		if h.Status != http.StatusOK || !bytes.Contains(answer, want.Raw) {
			return fmt.Errorf("status %d: %.300s", h.Status, answer)
		}
	}
	return nil
}

// quantile is a quantile of sorted values; 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
