package mcpgo

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"
)

func note(method string) mcp.JSONRPCNotification {
	return mcp.JSONRPCNotification{Notification: mcp.Notification{Method: method}}
}

// notBegun is an outbox whose goroutine has not run yet.
func notBegun(forward func(mcp.JSONRPCNotification), methods ...string) *outbox {
	o := &outbox{ch: make(chan mcp.JSONRPCNotification, room)}
	o.init(forward)
	for _, m := range methods {
		o.expect()
		o.ch <- note(m)
	}
	return o
}

// Who flushes before the goroutine has begun forwards by himself, and then neither the goroutine nor others who flush get in between.
func TestOneAtATimeForwards(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := &list[string]{}
		var o *outbox
		o = notBegun(func(n mcp.JSONRPCNotification) {
			if n.Method == "a" {
				go o.run()
				go func() {
					o.flush()
					got.add("flushed")
				}()
			}
			if len(got.got()) < 3 {
				synctest.Wait() // time for the others to get in between
			}
			got.add(n.Method)
		}, "a", "b")
		o.ch <- note("c") // of somebody who did not expect: it frees no room, so nobody is told
		o.flush()
		synctest.Wait()
		same(t, "forwarded", got.got(), []string{"a", "b", "c", "flushed"})
		o.expect()
		o.channel() <- note("d")
		synctest.Wait()
		same(t, "forwarded", got.got(), []string{"a", "b", "c", "flushed", "d"})
		o.end()
	})
}

// A goroutine that comes when all is over leaves at once, and takes along what came without being expected.
func TestAGoroutineThatComesTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := &list[string]{}
		o := notBegun(func(n mcp.JSONRPCNotification) { got.add(n.Method) }, "a")
		o.flush()
		o.end()
		o.ch <- note("stray")
		o.run()
		same(t, "forwarded", got.got(), []string{"a", "stray"})
		o.flush()
		o.end()
		same(t, "alive", o.expect(), false)
	})
}

// A last message that is expected when the call ends is waited for by a goroutine that has not begun then.
func TestAGoroutineThatBeginsAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := &list[string]{}
		o := notBegun(func(n mcp.JSONRPCNotification) { got.add(n.Method) })
		o.expect()
		o.flush()
		o.end()
		go o.run()
		synctest.Wait()
		o.channel() <- note("last")
		synctest.Wait()
		same(t, "forwarded", got.got(), []string{"last"})
		same(t, "dead", o.dead(), true)
	})
}

// Whoever stands in for the goroutine and panics does not keep its place.
func TestAStandInThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := &list[string]{}
		o := notBegun(func(n mcp.JSONRPCNotification) {
			if n.Method == "bad" {
				panic(n.Method)
			}
			got.add(n.Method)
		}, "bad", "good")
		func() {
			defer func() { _ = recover() }()
			o.flush()
		}()
		o.flush()
		same(t, "forwarded", got.got(), []string{"good"})
	})
}

// The JSON of params and results is made without mcp-go's detours, and is the same.
func TestTheJSONIsMCPGos(t *testing.T) {
	for _, p := range []mcp.NotificationParams{
		{},
		{AdditionalFields: map[string]any{}},
		{AdditionalFields: map[string]any{"b": "<&>\u2028", "a": map[string]any{"n": 1.5}, "c": nil, "r": json.RawMessage(`{ "x" : 1 }`)}},
		{AdditionalFields: map[string]any{"_meta": 1, "a": 2}},
		{Meta: map[string]any{"m": 1}},
		{Meta: map[string]any{"m": 1}, AdditionalFields: map[string]any{"a": 2}},
		{Meta: map[string]any{"m": 1}, AdditionalFields: map[string]any{"a": 2, "_meta": 3}},
	} {
		want, err := json.Marshal(p)
		same(t, "error", err, nil)
		got, err := encodeParams(p)
		same(t, "error", err, nil)
		same(t, "params", string(got), string(want))
	}
	for _, r := range []*mcp.CallToolResult{
		nil,
		{},
		mcp.NewToolResultText("<&>\u2028"),
		mcp.NewToolResultError("no"),
		{StructuredContent: map[string]any{"b": json.RawMessage(`[ 1 ]`), "a": "<"}},
		{RawStructuredContent: json.RawMessage(`{ "a" : "<" }`)},
	} {
		want, err := json.Marshal(r)
		same(t, "error", err, nil)
		got, fault := (&session{}).answer(mcp.JSONRPCResponse{Result: r})
		same(t, "fault", fault == nil, true)
		same(t, "result", string(got), string(want))
	}
}
