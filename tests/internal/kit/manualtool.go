package kit

import (
	"context"
	"encoding/json"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// Asks calls Ask in a goroutine of its own. The answer, as a string, or the error comes through the channel.
func (p *ManualTool) Asks(ctx context.Context, method string) chan any {
	outcome := make(chan any, 2)
	go func() {
		var answer json.RawMessage
		err := p.Ask(ctx, method, nil, &answer)
		if err != nil {
			outcome <- err
			return
		}
		outcome <- string(answer)
	}()
	synctest.Wait()
	return outcome
}

// Waits calls WaitConnected in a goroutine of its own. Its result comes through the channel.
func (p *ManualTool) Waits(ctx context.Context) chan error {
	answer := make(chan error, 1)
	go func() { answer <- p.WaitConnected(ctx) }()
	synctest.Wait()
	return answer
}

// ManualTool is a running call of a tool that the test controls: the test uses its handle, and says what it returns. It also returns when
// its context ends.
type ManualTool struct {
	*rejoin.Handle
	Ctx    context.Context
	Answer chan any
}

// Returns makes the tool return the result. A result that is an error is returned as the error.
func (p *ManualTool) Returns(result any) {
	p.Answer <- result
	synctest.Wait()
}

// Cause is the cause of the end of the tool's context; nil: it has not ended.
func (p *ManualTool) Cause() error {
	synctest.Wait()
	return context.Cause(p.Ctx)
}

// ManualTools is an app whose tools a test controls. next waits for the next call, in the order in which they were made.
func ManualTools() (app rejoin.App, next func() *ManualTool) {
	called := make(chan *ManualTool, 1000)
	app = Tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
		p := &ManualTool{h, ctx, make(chan any)}
		called <- p
		select {
		case result := <-p.Answer:
			if err, ok := result.(error); ok {
				return nil, err
			}
			return result, nil
		case <-ctx.Done():
			Elapse(time.Nanosecond) // if the server answers the call, it must do so first
			return "too late", nil
		}
	})
	return app, func() *ManualTool { return <-called }
}
