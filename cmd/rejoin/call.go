package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rejoin-mcp/rejoin/client"
)

// closeTimeout is how long the end of a session may take.
const closeTimeout = 2 * time.Second

// call calls a tool. Only errors of usage are returned.
func (a *app) call(ctx context.Context, cfg client.Config, url, tool string) error {
	args, err := arguments(a.object, a.args)
	if err != nil {
		return err
	}
	if err := tokenFile(a.tokenFile).unused(); err != nil {
		return err
	}
	w := newTokenWriter(a, url)
	cfg.Trace = w.watch(cfg.Trace)
	s, ok := a.connect(ctx, url, cfg)
	if !ok {
		return nil
	}
	// When ctx ends, the call is left, and not cancelled.
	call, err := s.Start(context.WithoutCancel(ctx), "tools/call", map[string]any{
		"name":      tool,
		"arguments": args,
		"_meta":     map[string]any{"progressToken": 1},
	})
	if err != nil {
		a.noAnswer(err)
		a.end(ctx, s)
		return nil
	}
	if a.follow(ctx, call, w) {
		s.Leave()
	} else {
		a.end(ctx, s)
	}
	return nil
}

// resume continues a call. It does not end the session, which another program may use.
func (a *app) resume(ctx context.Context, cfg client.Config, args []string) error {
	url, token, err := a.readToken(args)
	if err != nil {
		return err
	}
	w := newTokenWriter(a, url)
	cfg.Trace = w.watch(cfg.Trace)
	call, err := client.Resume(context.WithoutCancel(ctx), url, token, cfg)
	if err != nil {
		return err // the token is wrong, or its URL
	}
	a.follow(ctx, call, w)
	return nil
}

// follow prints what comes for a call, until it has ended or ctx has. It reports whether resume makes sense afterwards.
func (a *app) follow(ctx context.Context, call *client.Call, w *tokenWriter) (alive bool) {
	w.begin(call)
	stop := context.AfterFunc(ctx, func() {
		if a.cancel || call.Token() == "" {
			call.Cancel("the user has cancelled it")
		} else {
			call.Leave()
		}
	})
	defer stop()
	for m := range call.Messages() {
		a.out.message(m)
		w.write()
	}
	var result json.RawMessage
	err := call.Wait(context.WithoutCancel(ctx), &result)
	token := w.token()
	a.out.console.clear()
	switch e := asError(err); {
	case err == nil:
		if a.out.result(result) {
			a.code = exitFailed
		}
	case e != nil:
		a.out.failed(e)
		a.code = exitFailed
	case errors.Is(err, client.ErrLeft):
		a.out.left(token)
		a.code = exitLeft
		alive = true
	case errors.Is(err, client.ErrCancelled):
		a.out.failure(err, "")
		a.code = exitCancelled
	case token == "", errors.Is(err, client.ErrExpired), errors.Is(err, client.ErrSessionGone), errors.Is(err, client.ErrNoResponse),
		errors.Is(err, client.ErrUnanswered):
		a.out.failure(err, "")
		a.code = exitNoAnswer
	default:
		a.out.failure(err, token)
		a.code = exitNoAnswer
		alive = true
	}
	if alive {
		w.write()
	} else {
		w.remove() // after the result has been printed, so that a kill loses nothing
	}
	return alive
}

// connect opens a session, or prints why it cannot.
func (a *app) connect(ctx context.Context, url string, cfg client.Config) (*client.Session, bool) {
	s, err := client.Connect(ctx, url, cfg)
	if err != nil {
		a.stopped(ctx, err)
		return nil, false
	}
	a.out.connected(s.Version())
	return s, true
}

// end ends a session. If the server does not answer any more, it ends the session itself, later.
func (a *app) end(ctx context.Context, s *client.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = s.Close(ctx) // there is nothing to be done about it
}

// stopped prints why there is no answer: err, or the end of ctx before there was a call to leave.
func (a *app) stopped(ctx context.Context, err error) {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		a.noAnswer(err)
	case errors.Is(cause, errTimeout):
		a.noAnswer(errTimeout)
	default:
		a.out.failure(errors.New("interrupted"), "")
		a.code = exitCancelled
	}
}

func (a *app) noAnswer(err error) {
	if e := asError(err); e != nil {
		a.out.failed(e)
		a.code = exitFailed
		return
	}
	a.out.failure(err, "")
	a.code = exitNoAnswer
}

// refuse answers the requests of servers. The command has no capability that allows them.
func (a *app) refuse(_ context.Context, method string, _ json.RawMessage) (any, error) {
	a.out.console.line("rejoin: the server asked for " + method + ", which this command declines")
	if method == "elicitation/create" {
		return map[string]any{"action": "decline"}, nil
	}
	return nil, &client.Error{Code: -32601, Message: "this client is a command, and answers no " + method}
}
