package crossing

import (
	"context"
	"net/http"

	"github.com/rejoin-mcp/rejoin"
)

// thing is what an end crosses. It brings a client to the moment before, and returns what crosses.
type thing func(*client) (func(), error)

var things = map[string]thing{
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
		a := c.call("wait")
		return func() { close(c.letGo); <-a.done }, c.await("wait")
	},
	"an answer": func(c *client) (func(), error) {
		a := c.call("ask")
		id, err := a.find(questionID)
		return func() {
			c.post(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{"x":"y"}}}`)
			<-a.done
		}, err
	},
	"a cancellation": func(c *client) (func(), error) {
		a := c.call("wait")
		return func() {
			c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			<-a.done
		}, c.await("wait")
	},
	"a poll": func(c *client) (func(), error) {
		a := c.call("park")
		if err := wait(a.done, "the end of a stream that was closed"); err != nil {
			return nil, err
		}
		id, err := a.find(eventID)
		return func() { <-c.start(http.MethodGet, id, "").done }, err
	},
	noted: func(c *client) (func(), error) {
		return func() {
			c.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
			c.post(`{"jsonrpc":"2.0","method":"notifications/nonsense"}`)
		}, nil
	},
	"the listening": func(c *client) (func(), error) {
		return func() { <-c.start(http.MethodGet, "", "").done }, nil
	},
	"a subscription": func(c *client) (func(), error) {
		return func() {
			c.post(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"` + Resource + `"}}`)
		}, nil
	},
	opening: func(c *client) (func(), error) { return func() { _ = c.open() }, nil }, // it may be refused
	first:   func(c *client) (func(), error) { return func() { initialized(c) }, nil },
}

const (
	opening = "the opening"
	first   = "initialized" // comes right after initialize
	noted   = "a notification"
)

func initialized(c *client) { c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`) }

func endSession(c *client) {
	if s := c.opened.Load(); s != nil {
		_ = c.srv.EndSession(s.Ref())
	}
}

// end ends the sessions of a batch.
type end struct {
	each func(*client)        // one of them
	all  func(*rejoin.Server) // or all at once, with their server
	idle bool                 // or they end by themselves
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
		cancel() // it waits for nothing
		_ = srv.Drain(ctx)
		srv.Close()
	}},
}
