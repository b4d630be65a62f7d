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

// line is a session as mcp-go sees it, and leads to one stream.
type line struct {
	*memory
	ctx  context.Context // says which stream
	main *line           // the session's own; nil: this is it
	out  outbox

	params json.RawMessage // of the notification that is on its way; only the one that forwards touches them
}

func newLine(ctx context.Context, m *memory, s *rejoin.Session, main *line) *line {
	l := &line{memory: m, ctx: ctx, main: main}
	l.out.init(func(n mcp.JSONRPCNotification) {
		params, err := encodeParams(n.Params)
		if err == nil {
			l.params = params
			err = s.Notify(ctx, n.Method, &l.params)
			l.params = nil
		}
		if err != nil && !errors.Is(err, rejoin.ErrSessionEnded) { // mcp-go's caller was told that it was sent
			s.Logger().Warn("rejoin: a notification was dropped", "method", n.Method, "error", err)
		}
	})
	return l
}

// encode runs methods of the user's, on a goroutine that has nobody else to recover it.
func encode(v any) (raw json.RawMessage, err error) {
	defer recovered(&err)
	return json.Marshal(v)
}

// encodeParams is encode without the copies: of the map that the params make, and of the JSON that they make of it.
func encodeParams(p mcp.NotificationParams) (raw json.RawMessage, err error) {
	defer recovered(&err)
	if _, meta := p.AdditionalFields["_meta"]; p.Meta != nil || meta || len(p.AdditionalFields) == 0 {
		return p.MarshalJSON()
	}
	return json.Marshal(p.AdditionalFields)
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

// flush returns when all has gone ahead that was sent before, of which some has gone the other way since the call has ended.
func (l *line) flush() {
	l.out.flush()
	if l.main != nil && l.out.dead() {
		l.main.out.flush()
	}
}

// over is for the end of a call, before it is answered: what was sent until now goes ahead, and what comes later goes elsewhere.
func (l *line) over() {
	l.out.flush()
	l.out.end()
}

func (l *line) SessionID() string { return l.s.ID() }

// UpgradeToSSEWhenReceiveNotification is what mcp-go calls right before it asks for the channel to send a notification, which it drops
// if there is no room. So room is made here.
func (l *line) UpgradeToSSEWhenReceiveNotification() {
	if !l.out.expect() && l.main != nil {
		l.main.out.expect()
	}
}

func (l *line) NotificationChannel() chan<- mcp.JSONRPCNotification {
	ch := l.out.channel()
	if ch == nil && l.main != nil {
		return l.main.out.channel()
	}
	return ch
}

func (l *line) RequestElicitation(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	var result mcp.ElicitationResult
	if err := l.ask(ctx, mcp.MethodElicitationCreate, request.Params, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

func (l *line) RequestSampling(ctx context.Context, request mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	var result mcp.CreateMessageResult
	if err := l.ask(ctx, mcp.MethodSamplingCreateMessage, request.CreateMessageParams, &result); err != nil {
		return nil, err
	}
	content, err := mcp.ParseSamplingContent(result.Content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", mcp.MethodSamplingCreateMessage, err)
	}
	result.Content = content
	return &result, nil
}

func (l *line) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	var result mcp.ListRootsResult
	if err := l.ask(ctx, mcp.MethodListRoots, nil, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

// ask waits for the client's answer or for ctx's end. A call's context decides on the stream, also where the session was not taken from it.
func (l *line) ask(ctx context.Context, method mcp.MCPMethod, params, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if own, ok := server.ClientSessionFromContext(ctx).(*line); ok && own.memory == l.memory {
		l = own
	}
	var raw json.RawMessage
	if params != nil {
		var err error
		if raw, err = json.Marshal(params); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
	}
	l.flush() // what was sent before goes before
	type answer struct {
		result json.RawMessage
		err    error
	}
	answers := make(chan answer, 1)
	withdraw := l.s.Ask(l.ctx, string(method), raw, func(result json.RawMessage, err error) { answers <- answer{result, err} })
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
