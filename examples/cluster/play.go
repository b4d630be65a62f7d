package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
	"github.com/rejoin-mcp/rejoin/examples/internal/timeline"
)

// note is what the session has to remember.
const note = "the door code is 4711"

// within is how long the error of a call may take whose owner has died: two leases, Policy.Retry and 5 s (docs/many-machines.md).
const within = 2*lease + time.Second + 5*time.Second

// play is what happens to the processes, and what the client must see of it.
type play struct {
	see      *timeline.Timeline
	watch    *watch
	url      string
	children map[string]*child

	wire    *wire
	session *client.Session
}

// run plays all scenes. It returns an error if one of them does not end as it must.
func (p *play) run(ctx context.Context) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	p.wire = &wire{see: p.see, watch: p.watch, next: transport}
	var err error
	p.session, err = client.Connect(ctx, p.url, p.config())
	if err != nil {
		return err
	}
	for _, scene := range []func(context.Context) error{p.anyProcess, p.kill, p.drain} {
		if err = scene(ctx); err != nil {
			break
		}
	}
	if err := errors.Join(err, p.session.Close(ctx)); err != nil {
		return err
	}
	p.see.Text("Two owners have ended, and the session has not. Each call has ended with its result, or with an error in time.")
	return nil
}

func (p *play) config() client.Config {
	return client.Config{HTTP: &http.Client{Transport: p.wire}, Name: "cluster", Version: "1.0.0", Era: client.EraLegacy, Trace: p.wire.trace}
}

// anyProcess: a call outlives its connections, and other processes than the owner serve its polls.
func (p *play) anyProcess(ctx context.Context) error {
	p.see.Text("Any process takes any request.")
	if err := p.quick(ctx, "remember", map[string]any{"text": note}, "I will remember that"); err != nil {
		return err
	}
	call, err := p.job(ctx, 6)
	if err != nil {
		return err
	}
	p.progress(call, 0)
	if err := p.result(ctx, call, "6 steps done"); err != nil {
		return err
	}
	if p.wire.polledAfar.Load() == 0 {
		return errors.New("all polls came to the owner: that shows nothing")
	}
	return nil
}

// kill: the owner dies in the middle of a call.
func (p *play) kill(ctx context.Context) error {
	p.see.Text("A client leaves a call. Then the owner of the session is killed in the middle of another one.")
	left, err := p.job(ctx, 3)
	if err != nil {
		return err
	}
	p.progress(left, 1)
	token := left.Leave()
	p.see.Line(timeline.None, "", "  the client has left the call, and kept its token")
	call, err := p.job(ctx, 20)
	if err != nil {
		return err
	}
	p.progress(call, 3)
	owner := p.watch.ownerNow()
	p.see.Line(timeline.None, "", "  kill -9 "+owner)
	p.children[owner].kill()
	began := time.Now()
	err = call.Wait(ctx, nil)
	took := time.Since(began)
	lost, ok := errors.AsType[*client.Error](err)
	if err == nil {
		return errors.New("the call of the owner that was killed has a result")
	}
	if !ok || lost.Reason() != rejoin.ReasonOwnerLost {
		return fmt.Errorf("the call of the owner that was killed has ended otherwise: %w", err)
	}
	p.see.Line(timeline.In, "", fmt.Sprintf("error %s, %.1f s after the kill", lost.Reason(), took.Seconds()))
	if took > within {
		return fmt.Errorf("the client has waited %v for that, which is longer than %v", took, within)
	}
	if err := p.quick(ctx, "recall", nil, note); err != nil {
		return err
	}
	p.see.Line(timeline.None, "", "  the client comes back with the token of the call that it has left")
	resumed, err := client.Resume(ctx, p.url, token, p.config())
	if err != nil {
		return err
	}
	return p.result(ctx, resumed, "3 steps done")
}

// drain: the owner is told to end in the middle of a call.
func (p *play) drain(ctx context.Context) error {
	p.see.Text("The owner of the session is told to end in the middle of a call.")
	call, err := p.job(ctx, 8)
	if err != nil {
		return err
	}
	p.progress(call, 3)
	owner := p.watch.ownerNow()
	p.see.Line(timeline.None, "", "  SIGTERM to "+owner)
	if err := p.children[owner].signal(syscall.SIGTERM); err != nil {
		return err
	}
	p.progress(call, 0)
	if err := p.result(ctx, call, "8 steps done"); err != nil {
		return err
	}
	if err := p.quick(ctx, "recall", nil, note); err != nil {
		return err
	}
	if err := p.children[owner].wait(ctx); err != nil {
		return err
	}
	p.see.Line(timeline.None, "", "  "+owner+" has ended in good order")
	return p.quick(ctx, "recall", nil, note)
}

// job calls the slow tool.
func (p *play) job(ctx context.Context, steps int) (*client.Call, error) {
	return p.session.Start(ctx, "tools/call", map[string]any{
		"name": "long_job", "arguments": map[string]any{"steps": steps}, "_meta": map[string]any{"progressToken": "p"},
	})
}

// progress prints the progress of a call until that many messages have come, or until the call has ended.
func (p *play) progress(call *client.Call, enough int) {
	for m := range call.Messages() {
		var params struct {
			Progress float64 `json:"progress"`
			Total    float64 `json:"total"`
			Message  string  `json:"message"`
		}
		_ = json.Unmarshal(m.Params, &params) // it is made in tools.go
		p.see.Line(timeline.In, "", fmt.Sprintf("progress %2v/%v %s", params.Progress, params.Total, params.Message))
		if enough--; enough == 0 {
			return
		}
	}
}

// result waits for the result of a call, and prints it.
func (p *play) result(ctx context.Context, call *client.Call, want string) error {
	var answer toolResult
	if err := call.Wait(ctx, &answer); err != nil {
		return err
	}
	return p.answered(&answer, want)
}

// quick calls a tool that answers at once.
func (p *play) quick(ctx context.Context, tool string, arguments map[string]any, want string) error {
	params := map[string]any{"name": tool}
	if arguments != nil {
		params["arguments"] = arguments
	}
	var answer toolResult
	if err := p.session.Do(ctx, "tools/call", params, &answer); err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	return p.answered(&answer, want)
}

// toolResult is the result of a tool.
type toolResult struct{ Content []struct{ Text string } }

func (p *play) answered(r *toolResult, want string) error {
	if len(r.Content) != 1 || r.Content[0].Text != want {
		return fmt.Errorf("the result is %v, not %q", r.Content, want)
	}
	p.see.Line(timeline.In, "", "result: "+want)
	return nil
}
