package kit

import (
	"context"
	"encoding/json"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// Asks runs Request in a goroutine of its own. Its outcome, "answer" or an error, comes through the channel.
func (p *Puppet) Asks(ctx context.Context, method string) chan any {
	outcome := make(chan any, 2)
	go func() {
		var answer json.RawMessage
		err := p.Request(ctx, method, nil, &answer)
		if err != nil {
			outcome <- err
			return
		}
		outcome <- string(answer)
	}()
	synctest.Wait()
	return outcome
}

// Waits runs WaitConnected. What it returns comes through the channel.
func (p *Puppet) Waits(ctx context.Context) chan error {
	answer := make(chan error, 1)
	go func() { answer <- p.WaitConnected(ctx) }()
	synctest.Wait()
	return answer
}

// Puppet is a tool that does what the test does with its handle, and returns when the test says so or its context ends.
type Puppet struct {
	*rejoin.Handle
	Ctx    context.Context
	Answer chan any
}

// Returns makes the tool return. An error is returned as one.
func (p *Puppet) Returns(result any) {
	p.Answer <- result
	synctest.Wait()
}

// Cause is why the tool's context has ended; nil: it has not.
func (p *Puppet) Cause() error {
	synctest.Wait()
	return context.Cause(p.Ctx)
}

// Puppets is an app of such tools. next is the tool that was called last.
func Puppets() (app rejoin.App, next func() *Puppet) {
	called := make(chan *Puppet, 1000)
	app = Tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
		p := &Puppet{h, ctx, make(chan any)}
		called <- p
		select {
		case result := <-p.Answer:
			if err, ok := result.(error); ok {
				return nil, err
			}
			return result, nil
		case <-ctx.Done():
			Elapse(time.Nanosecond) // the server is to answer first, if it answers
			return "too late", nil
		}
	})
	return app, func() *Puppet { return <-called }
}
