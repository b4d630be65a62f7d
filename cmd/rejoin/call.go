package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rejoin-mcp/rejoin/client"
)

// patience is how long the end of a session may take.
const patience = 2 * time.Second

// call calls a tool, and returns an error of usage.
func (a *app) call(ctx context.Context, cfg client.Config, url, tool string) error {
	args, err := arguments(a.object, a.args)
	if err != nil {
		return err
	}
	if err := tokenFile(a.tokenFile).free(); err != nil {
		return err
	}
	k := newKeeper(a, url)
	cfg.Trace = k.watch(cfg.Trace)
	s, ok := a.connect(ctx, url, cfg)
	if !ok {
		return nil
	}
	// The call does not end with ctx: it is left.
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
	if a.follow(ctx, call, k) {
		s.Leave()
	} else {
		a.end(ctx, s)
	}
	return nil
}

// resume goes on with a call. Its session is left alone: it may be another program's.
func (a *app) resume(ctx context.Context, cfg client.Config, args []string) error {
	url, token, err := a.readToken(args)
	if err != nil {
		return err
	}
	k := newKeeper(a, url)
	cfg.Trace = k.watch(cfg.Trace)
	call, err := client.Resume(context.WithoutCancel(ctx), url, token, cfg)
	if err != nil {
		return err // of the token, or of its URL
	}
	a.follow(ctx, call, k)
	return nil
}

// follow prints what a call brings, until it has ended or ctx has. It reports whether there is something to come back for.
func (a *app) follow(ctx context.Context, call *client.Call, k *keeper) (alive bool) {
	k.follow(call)
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
		k.keep()
	}
	var result json.RawMessage
	err := call.Wait(context.WithoutCancel(ctx), &result)
	token := k.token()
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
	case token == "", errors.Is(err, client.ErrExpired), errors.Is(err, client.ErrSessionGone), errors.Is(err, client.ErrNoResponse):
		a.out.failure(err, "")
		a.code = exitNoAnswer
	default:
		a.out.failure(err, token)
		a.code = exitNoAnswer
		alive = true
	}
	if alive {
		k.keep()
	} else {
		k.drop() // after the result has been printed, so that a kill loses nothing
	}
	return alive
}

// connect opens a session, or says why it cannot.
func (a *app) connect(ctx context.Context, url string, cfg client.Config) (*client.Session, bool) {
	s, err := client.Connect(ctx, url, cfg)
	if err != nil {
		a.stopped(ctx, err)
		return nil, false
	}
	a.out.opened(s.ProtocolVersion())
	return s, true
}

// end ends a session, as far as its server still answers.
func (a *app) end(ctx context.Context, s *client.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_ = s.Close(ctx) // it ends by itself
}

// stopped says why there is no answer; ctx may have ended before there was anything to leave.
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

// refuse answers what servers ask. No capability says that they may.
func (a *app) refuse(_ context.Context, method string, _ json.RawMessage) (any, error) {
	a.out.console.line("rejoin: the server asked for " + method + ", which this command declines")
	if method == "elicitation/create" {
		return map[string]any{"action": "decline"}, nil
	}
	return nil, &client.Error{Code: -32601, Message: "this client is a command, and answers no " + method}
}
