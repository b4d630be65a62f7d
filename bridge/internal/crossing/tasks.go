package crossing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// TaskTools are the names of the tools that the app of RunTasks must have. Each calls Handlers.TaskTool.
var TaskTools = []string{"wait", "ask", "rounds", "say", "deaf"}

// What the server of RunTasks is told.
const (
	taskAfter  = time.Second
	abandon    = 10 * time.Second
	maxRuntime = 20 * time.Second
	taskTTL    = time.Minute
)

// TaskTool is the handler of a tool whose call becomes a task. answered says that the client has sent inputResponses. If it reports asks, the tool must
// return an elicitation under the key "k" as its result, in the way of its SDK. Otherwise the tool returns any text.
func (h *Handlers) TaskTool(ctx context.Context, name string, answered bool, sender Sender) (asks bool) {
	h.running.Add(1)
	defer h.running.Add(-1)
	c, ok := ctx.Value(clientKey{}).(*client)
	if !ok {
		h.errorf("%s: the handler does not have the values of its request", name)
		c = newClient(nil)
	}
	c.toolStarted(name)
	switch name {
	case "ask":
		for ctx.Err() == nil {
			_ = rejoin.HandleFromContext(ctx).Ask(ctx, "elicitation/create", map[string]any{"message": "x"}, nil) // it may get no answer
			select {
			case <-ctx.Done():
			case <-c.release:
				return false
			case <-time.After(taskAfter):
			}
		}
	case "rounds":
		select {
		case <-ctx.Done():
		case <-time.After(2 * taskAfter): // until it is a task
			return !answered || random(4) > 0
		}
	case "say":
		for range 20 {
			_ = sender.Log(ctx) // its client may be gone
			_ = rejoin.HandleFromContext(ctx).Progress(1, 0, fmt.Sprint(random(3)))
		}
	case "deaf": // looks at its context late
		select {
		case <-time.After(maxRuntime + taskTTL):
		case <-c.release:
			return false
		}
	}
	select {
	case <-ctx.Done():
		if cause := context.Cause(ctx); !isCause(cause) && !errors.Is(cause, rejoin.ErrMaxRuntime) && !errors.Is(cause, errDisconnected) {
			h.errorf("%s: its context ended with %v", name, cause)
		}
	case <-c.release:
	case <-h.giveUp:
		h.errorf("%s: its context does not end", name)
	}
	return false
}

// errDisconnected is why the contexts of requests end.
var errDisconnected = errors.New("disconnected")

// modern starts a modern request, which end of c.leave disconnects. more is members of its params.
func (c *client) modern(method, name, more string) *response {
	ctx, leave := context.WithCancelCause(context.Background())
	c.mu.Lock()
	c.leave = append(c.leave, leave)
	c.mu.Unlock()
	return c.startIn(ctx, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"debug","progressToken":1.5,`+
		`"io.modelcontextprotocol/clientInfo":{"name":"crossing","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`+more+`}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
}

func (c *client) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, leave := range c.leave {
		leave(errDisconnected)
	}
	c.leave = nil
}

func (c *client) callTask(tool string) *response {
	return c.modern("tools/call", tool, `,"name":"`+tool+`","arguments":{}`)
}

// aboutTask sends a request about the client's task, if there is one.
func (c *client) aboutTask(method, more string) *response {
	id, _ := c.task.Load().(string)
	return c.modern(method, id, `,"taskId":"`+id+`"`+more)
}

func (c *client) updateTask() {
	res := c.aboutTask("tasks/get", "")
	<-res.done
	if key := questionKey.FindStringSubmatch(res.text()); key != nil {
		<-c.aboutTask("tasks/update", `,"inputResponses":{"`+key[1]+`":{"action":"accept","content":{"x":"y"}}}`).done
	}
}

// becomeTask calls a tool and waits until its call is a task.
func (c *client) becomeTask(tool string) error {
	id, err := c.callTask(tool).waitFor(taskID)
	c.task.Store(id)
	return err
}

var (
	taskID      = regexp.MustCompile(`"taskId":"([^"]+)"`)
	questionKey = regexp.MustCompile(`"inputRequests":\{"([^"]+)"`)
)

// taskOperations prepare what happens to a call while it ends.
var taskOperations = map[string]operation{
	aCall: func(c *client) (func(), error) {
		res := c.callTask("wait") // it becomes a task when it ends
		return func() { <-res.done }, c.waitStarted("wait")
	},
	"messages": func(c *client) (func(), error) {
		return func() { <-c.callTask("say").done }, nil
	},
	"a question": func(c *client) (func(), error) {
		return func() { <-c.callTask("ask").done }, nil
	},
	"an answer": func(c *client) (func(), error) {
		return c.updateTask, c.becomeTask("ask")
	},
	"an answer of a round": func(c *client) (func(), error) {
		err := c.becomeTask("rounds")
		<-time.After(2 * taskAfter) // now it asks
		return c.updateTask, err
	},
	"a get": func(c *client) (func(), error) {
		return func() { <-c.aboutTask("tasks/get", "").done }, c.becomeTask("wait")
	},
	"a result": func(c *client) (func(), error) {
		return sync.OnceFunc(func() { close(c.release) }), c.becomeTask("wait")
	},
	"a listen": func(c *client) (func(), error) {
		err := c.becomeTask("say")
		id, _ := c.task.Load().(string)
		return func() {
			c.modern("subscriptions/listen", "", `,"notifications":{"toolsListChanged":true,"taskIds":["`+id+`"]}`)
		}, err
	},
	"a handler that runs on": func(c *client) (func(), error) {
		return func() { <-c.aboutTask("tasks/get", "").done }, c.becomeTask("deaf")
	},
}

const aCall = "a call"

// taskEnd is a way in which calls end. One of each, all and after is set.
type taskEnd struct {
	each  func(*client)
	all   func(*rejoin.Server)
	after time.Duration // they end by themselves at this time after the batch began
}

var taskEnds = map[string]taskEnd{
	"tasks/cancel": {each: func(c *client) {
		if c.task.Load() == nil {
			c.disconnect() // as clients cancel a call that is not a task
			return
		}
		<-c.aboutTask("tasks/cancel", "").done
	}},
	"a disconnect":  {each: (*client).disconnect},
	"becoming one":  {after: taskAfter},
	"AbandonAfter":  {after: taskAfter + abandon},
	"MaxRuntime":    {after: maxRuntime},
	"a clean drain": {all: func(srv *rejoin.Server) { drain(srv, time.Minute) }},
	"a drain": {all: func(srv *rejoin.Server) {
		drain(srv, 0)
		srv.Close()
	}},
}

// drain drains a server for a time.
func drain(srv *rejoin.Server, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = srv.Drain(ctx)
}

// RunTasks runs all scenarios of calls that become tasks. newApp returns a ModernApp with TaskTools; it is called in the bubble of each scenario.
func RunTasks(t *testing.T, newApp func(*Handlers) rejoin.App) {
	t.Helper()
	oneAtATime(t)
	for _, e := range slices.Sorted(maps.Keys(taskEnds)) {
		for _, what := range slices.Sorted(maps.Keys(taskOperations)) {
			t.Run(e+" and "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &scenario{t: t, taskEnd: taskEnds[e], operation: what, handlers: &Handlers{giveUp: make(chan struct{}), errors: map[string]int{}}}
					s.tasks = true
					s.run(newApp(s.handlers))
				})
			})
		}
	}
}

// taskBatch is batch for calls that become tasks.
func (s *scenario) taskBatch() {
	clients := make([]*client, atOnce)
	acts := make([]func(), atOnce)
	errs := make([]error, atOnce)
	var group, ended sync.WaitGroup
	for i := range clients {
		clients[i] = newClient(s.srv)
		group.Go(func() { acts[i], errs[i] = taskOperations[s.operation](clients[i]) })
	}
	began := time.Now()
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
	at := began.Add(s.taskEnd.after)
	if s.operation == aCall && s.taskEnd.after < taskAfter {
		at = began.Add(taskAfter)
	}
	then := func(group *sync.WaitGroup, act func()) {
		group.Go(func() {
			<-time.After(time.Until(at))
			s.delay()
			act()
		})
	}
	for i, c := range clients {
		then(&group, acts[i])
		if s.taskEnd.each != nil {
			then(&ended, func() { s.taskEnd.each(c) })
		}
	}
	if s.taskEnd.all != nil {
		then(&ended, func() { s.taskEnd.all(s.srv) })
	}
	ended.Wait()
	<-time.After(time.Hour) // what is left is abandoned, and expires
	for _, c := range clients {
		c.disconnect()
	}
	group.Wait()
}
