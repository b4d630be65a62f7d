//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/client"
)

// ownGuest is a session of package client.
type ownGuest struct {
	crowd *crowd
	s     *client.Session
}

func openClient(ctx context.Context, c *crowd, url string, _ *rand.Rand) (guest, error) {
	g := &ownGuest{crowd: c}
	session := make(chan string, 1) // it is known when Connect returns, and the stream may bring something by then
	var err error
	g.s, err = client.Connect(ctx, url, client.Config{
		HTTP: c.http, Era: client.EraLegacy, Name: "client", Backoff: 100 * time.Millisecond, BackoffMax: time.Second, Attempts: 60,
		HeaderTimeout: 30 * time.Second, IdleTimeout: c.timing.Silence, Logger: c.logger,
		OnNotification: func(method string, params json.RawMessage) {
			id := <-session
			session <- id
			var m struct {
				Data string `json:"data"`
			}
			if method != "notifications/message" || json.Unmarshal(params, &m) != nil {
				c.ledger.faulty(foreign, fmt.Sprintf("%s %s on a standalone stream", method, params))
				return
			}
			c.ledger.aside(id, m.Data)
		},
	})
	if err != nil {
		session <- ""
		return nil, err
	}
	session <- g.s.ID()
	return g, nil
}

func (g *ownGuest) id() string    { return g.s.ID() }
func (g *ownGuest) listens() bool { return true }

func (g *ownGuest) close(ctx context.Context) { _ = g.s.Close(ctx) } // the session may be over

func (g *ownGuest) call(ctx context.Context, r *record) {
	call, err := g.s.Start(context.WithoutCancel(ctx), "tools/call", map[string]any{
		"name": "work", "arguments": &r.Work, "_meta": map[string]any{"progressToken": r.Name},
	})
	if err != nil {
		r.end(vanished, err.Error())
		return
	}
	defer context.AfterFunc(ctx, func() { call.Leave() })()
	for m := range call.Messages() {
		var p struct {
			Message string `json:"message"`
		}
		if m.Method != "notifications/progress" || json.Unmarshal(m.Params, &p) != nil {
			r.faulty(foreign, fmt.Sprintf("%s got %s %s", r.Name, m.Method, m.Params))
			continue
		}
		r.event(p.Message)
	}
	var result struct {
		Content []textContent `json:"content"`
		IsError bool          `json:"isError"`
	}
	err = call.Wait(context.WithoutCancel(ctx), &result)
	var status *client.StatusError
	var answer *client.Error
	switch {
	case err == nil && len(result.Content) == 1:
		r.answer(result.Content[0].Text, result.IsError)
	case err == nil:
		r.faulty(foreign, r.Name+" got a result without content")
	case errors.Is(err, client.ErrLeft): // the time is over
	case errors.Is(err, client.ErrSessionGone):
		r.end(gone, err.Error())
	case errors.As(err, &status) && call.Token() == "" && status.Status == http.StatusServiceUnavailable:
		r.end(refusedBy, err.Error())
	case errors.As(err, &status) && call.Token() == "":
		r.end(noID, err.Error())
	case errors.As(err, &answer):
		e := rpcError{Code: answer.Code, Message: answer.Message}
		_ = json.Unmarshal(answer.Data, &e.Data) // if it fails, the reason stays empty
		r.end(failed, e.why())
	case errors.Is(err, client.ErrMayHaveRun), call.Token() == "":
		r.end(noID, err.Error())
	default:
		r.end(vanished, err.Error())
	}
}
