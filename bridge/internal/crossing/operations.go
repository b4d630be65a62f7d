package crossing

import (
	"context"
	"net/http"

	"github.com/rejoin-mcp/rejoin"
)

// operation prepares an operation of a client, and returns a function that runs it, at the same time as the session ends.
type operation func(*client) (func(), error)

var operations = map[string]operation{
	"a call": func(c *client) (func(), error) {
		return func() { <-c.call("wait").done }, nil
	},
	"a question": func(c *client) (func(), error) {
		return func() { <-c.call("ask").done }, nil
	},
	"messages": func(c *client) (func(), error) {
		return func() { <-c.call("say").done }, nil
	},
	"a result": func(c *client) (func(), error) {
		res := c.call("wait")
		return func() { close(c.release); <-res.done }, c.waitStarted("wait")
	},
	"an answer": func(c *client) (func(), error) {
		res := c.call("ask")
		id, err := res.waitFor(questionID)
		return func() {
			c.post(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{"x":"y"}}}`)
			<-res.done
		}, err
	},
	"a cancellation": func(c *client) (func(), error) {
		res := c.call("wait")
		return func() {
			c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			<-res.done
		}, c.waitStarted("wait")
	},
	"a poll": func(c *client) (func(), error) {
		res := c.call("park")
		if err := wait(res.done, "the end of a stream that was closed"); err != nil {
			return nil, err
		}
		id, err := res.waitFor(eventID)
		return func() { <-c.start(http.MethodGet, id, "").done }, err
	},
	roots: func(c *client) (func(), error) {
		return func() {
			c.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
			c.post(`{"jsonrpc":"2.0","method":"notifications/nonsense"}`)
		}, nil
	},
	"the standalone stream": func(c *client) (func(), error) {
		return func() { <-c.start(http.MethodGet, "", "").done }, nil
	},
	"a subscription": func(c *client) (func(), error) {
		return func() {
			c.post(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"` + Resource + `"}}`)
		}, nil
	},
	opening:          func(c *client) (func(), error) { return func() { _ = c.open() }, nil }, // it may be refused
	initializedFirst: func(c *client) (func(), error) { return func() { initialized(c) }, nil },
}

const (
	opening          = "initialize"
	initializedFirst = "initialized" // directly after initialize
	roots            = "a notification"
)

func initialized(c *client) { c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`) }

func endSession(c *client) {
	if s := c.opened.Load(); s != nil {
		_ = c.srv.EndSession(s.Ref())
	}
}

// end is a way in which the sessions of a batch end. One of its fields is set.
type end struct {
	each func(*client)        // ends one session
	all  func(*rejoin.Server) // ends all sessions
	idle bool                 // sessions end because they are idle
}

var ends = map[string]end{
	"DELETE":     {each: func(c *client) { <-c.start(http.MethodDelete, "", "").done }},
	"EndSession": {each: endSession},
	"the app": {each: func(c *client) {
		if s := c.opened.Load(); s != nil {
			s.End(nil)
		}
	}},
	"idleness": {idle: true},
	"a drain": {all: func(srv *rejoin.Server) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // Drain does not wait
		_ = srv.Drain(ctx)
		srv.Close()
	}},
}
