package longcalls

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// SDK is an SDK behind its bridge.
type SDK struct {
	// New makes a server with tools, and its app. addTool adds a tool, so that clients are told that the list of tools has changed.
	New func(log *slog.Logger, tools map[string]Tool) (app rejoin.App, addTool func(name string))
	// Panic is the message of the error that a tool's panic is answered with.
	Panic string
}

// Tool is the handler of a tool. The bridge's test runs it in a tool of the SDK.
type Tool func(context.Context, Call) Outcome

// Call is what a tool gets from its SDK.
type Call struct {
	Progress func(message string) error // sends progress for the token of the request, as the SDK does
	Log      func(text string) error    // sends a log message, as the SDK does
	Elicit   func() error               // asks through the session of the SDK
	Answers  map[string]string          // the member "x" of what the user has filled in, by the key of the question
	State    string                     // the requestState
	Header   string                     // the field X-Number of the request's header
}

// Outcome is how a tool ends. One of Text, Fault, Panic, and Asks with State is set.
type Outcome struct {
	Text       string
	Structured any
	IsError    bool
	Fault      error             // a protocol error
	Panic      any               // it panics with this
	Asks       map[string]string // elicitations: their messages by key
	State      string
}

// Run runs all tests.
func Run(t *testing.T, sdk SDK) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"results", results},
		{"a call that is refused", refused},
		{"ids", ids},
		{"messages", messages},
		{"messages just before the task", messagesJustBefore},
		{"messages through what cannot flush", messagesHeldBack},
		{"many messages", manyMessages},
		{"a cancelled call", cancelled},
		{"a call that runs on", runsOn},
		{"a client that leaves", leaves},
		{"limits", limits},
		{"deadlines", deadlines},
		{"the handle", handle},
		{"a question of the handle", handleAsks},
		{"a question through the session", elicits},
		{"questions in rounds", rounds},
		{"a question before the task", asksBefore},
		{"a state without a question", busy},
		{"a question that the client cannot answer", cannotAnswer},
		{"server/discover", discover},
		{"subscriptions/listen", listens},
		{"values of the request", values},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.run(&world{T: t, sdk: sdk, caps: answering}) })
		})
	}
}

// elapse lets virtual time pass, for a test or a tool.
func elapse(d time.Duration) { <-time.After(d) }

// text is a tool that takes a time and returns its name.
func text(name string, takes time.Duration) Tool {
	return func(context.Context, Call) Outcome {
		elapse(takes)
		return Outcome{Text: name}
	}
}

// same fails the test if got is not want.
func (w *world) same(what string, got, want any) {
	w.Helper()
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		w.Errorf("%s:\n got %s\nwant %s", what, a, b)
	}
}
