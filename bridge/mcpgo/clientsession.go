package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
)

// clientSession is a session as mcp-go sees it. Its messages go to one stream.
type clientSession struct {
	*sessionState
	ctx    context.Context // of the call: it determines the stream
	main   *clientSession  // the registered one; nil: this is it
	outbox outbox

	params json.RawMessage // of the notification that is sent now; only forward uses them
}

func newClientSession(ctx context.Context, st *sessionState, main *clientSession) *clientSession {
	c := &clientSession{sessionState: st, ctx: ctx, main: main}
	c.outbox.init(c.forward)
	return c
}

// forward sends a notification, for the outbox.
func (c *clientSession) forward(n mcp.JSONRPCNotification) {
	params, err := encodeParams(n.Params)
	if err == nil {
		c.params = params
		err = c.session.Notify(c.ctx, n.Method, &c.params) // a pointer to a field: no allocation
		c.params = nil
	}
	if err != nil && !errors.Is(err, rejoin.ErrSessionEnded) { // the sender was told that it was sent
		c.session.Logger().Warn("rejoin: a notification was dropped", "method", n.Method, "error", err)
	}
}

// encode is json.Marshal, which may call methods of the program. It recovers their panics: nothing else does that on the outbox's goroutine.
func encode(v any) (raw json.RawMessage, err error) {
	defer recoverInto(&err)
	return json.Marshal(v)
}

// encodeParams is encode for params. Where possible it avoids their MarshalJSON, which copies the map and the JSON.
func encodeParams(p mcp.NotificationParams) (raw json.RawMessage, err error) {
	defer recoverInto(&err)
	if _, meta := p.AdditionalFields["_meta"]; p.Meta != nil || meta || len(p.AdditionalFields) == 0 {
		return p.MarshalJSON()
	}
	return json.Marshal(p.AdditionalFields)
}

func recoverInto(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

// flush returns when all messages are forwarded that were sent before. After the end of the call they are sent through main.
func (c *clientSession) flush() {
	c.outbox.flush()
	if c.main != nil && c.outbox.closed() {
		c.main.outbox.flush()
	}
}

// endCall is called before a call is answered. It forwards all messages that were sent before. Later ones are sent through main.
func (c *clientSession) endCall() {
	c.outbox.flush()
	c.outbox.close()
}

func (c *clientSession) SessionID() string { return c.session.ID() }

// UpgradeToSSEWhenReceiveNotification waits for room in the channel: mcp-go calls it immediately before it sends a notification to
// NotificationChannel, and drops the notification if the channel is full.
func (c *clientSession) UpgradeToSSEWhenReceiveNotification() {
	if !c.outbox.reserve() && c.main != nil {
		c.main.outbox.reserve()
	}
}

func (c *clientSession) NotificationChannel() chan<- mcp.JSONRPCNotification {
	ch := c.outbox.channel()
	if ch == nil && c.main != nil {
		return c.main.outbox.channel()
	}
	return ch
}

func (c *clientSession) RequestElicitation(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	var result mcp.ElicitationResult
	if err := c.ask(ctx, mcp.MethodElicitationCreate, request.Params, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

func (c *clientSession) RequestSampling(ctx context.Context, request mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	var result mcp.CreateMessageResult
	if err := c.ask(ctx, mcp.MethodSamplingCreateMessage, request.CreateMessageParams, &result); err != nil {
		return nil, err
	}
	content, err := mcp.ParseSamplingContent(result.Content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", mcp.MethodSamplingCreateMessage, err)
	}
	result.Content = content
	return &result, nil
}

func (c *clientSession) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	var result mcp.ListRootsResult
	if err := c.ask(ctx, mcp.MethodListRoots, nil, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

// ask sends a request to the client, and waits for the answer or the end of ctx. If ctx belongs to a call of this session, the request goes to
// the stream of that call, also if c is another clientSession, such as one that a hook has kept.
func (c *clientSession) ask(ctx context.Context, method mcp.MCPMethod, params, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if own, ok := server.ClientSessionFromContext(ctx).(*clientSession); ok && own.sessionState == c.sessionState {
		c = own
	}
	var raw json.RawMessage
	if params != nil {
		var err error
		if raw, err = json.Marshal(params); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
	}
	c.flush() // messages that were sent before go first
	type answer struct {
		result json.RawMessage
		err    error
	}
	answers := make(chan answer, 1)
	withdraw := c.session.AskFunc(c.ctx, string(method), raw, func(result json.RawMessage, err error) { answers <- answer{result, err} })
	select {
	case a := <-answers:
		if a.err == nil {
			a.err = json.Unmarshal(a.result, result)
		}
		if a.err != nil {
			return fmt.Errorf("%s: %w", method, a.err)
		}
		return nil
	case <-ctx.Done():
		withdraw(context.Cause(ctx).Error())
		return ctx.Err()
	}
}
