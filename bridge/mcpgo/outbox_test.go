package mcpgo

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"
)

func notification(method string) mcp.JSONRPCNotification {
	return mcp.JSONRPCNotification{Notification: mcp.Notification{Method: method}}
}

// newOutbox returns an outbox whose goroutine has not run yet.
func newOutbox(forward func(mcp.JSONRPCNotification), methods ...string) *outbox {
	o := &outbox{ch: make(chan mcp.JSONRPCNotification, capacity)}
	o.init(forward)
	for _, m := range methods {
		o.reserve()
		o.ch <- notification(m)
	}
	return o
}

// A flush before the goroutine runs forwards the notifications itself. The goroutine and other flushes wait for it.
func TestOneAtATimeForwards(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := &list[string]{}
		var o *outbox
		o = newOutbox(func(n mcp.JSONRPCNotification) {
			if n.Method == "a" {
				go o.run()
				go func() {
					o.flush()
					got.add("flushed")
				}()
			}
			if len(got.got()) < 3 {
				synctest.Wait() // gives the others time to interfere
			}
			got.add(n.Method)
		}, "a", "b")
		o.ch <- notification("c") // without a reservation, so it frees no place
		o.flush()
		synctest.Wait()
		same(t, "forwarded", got.got(), []string{"a", "b", "c", "flushed"})
		o.reserve()
		o.channel() <- notification("d")
		synctest.Wait()
		same(t, "forwarded", got.got(), []string{"a", "b", "c", "flushed", "d"})
		o.close()
	})
}

// If the outbox is closed before the goroutine runs, the goroutine forwards notifications without a reservation, and returns.
func TestAGoroutineThatComesTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := &list[string]{}
		o := newOutbox(func(n mcp.JSONRPCNotification) { got.add(n.Method) }, "a")
		o.flush()
		o.close()
		o.ch <- notification("stray")
		o.run()
		same(t, "forwarded", got.got(), []string{"a", "stray"})
		o.flush()
		o.close()
		same(t, "usable", o.reserve(), false)
	})
}

// A goroutine that begins after close waits for the reserved notification.
func TestAGoroutineThatBeginsAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := &list[string]{}
		o := newOutbox(func(n mcp.JSONRPCNotification) { got.add(n.Method) })
		o.reserve()
		o.flush()
		o.close()
		go o.run()
		synctest.Wait()
		o.channel() <- notification("last")
		synctest.Wait()
		same(t, "forwarded", got.got(), []string{"last"})
		same(t, "closed", o.closed(), true)
	})
}

// A flush that panics does not block later flushes.
func TestAFlushThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := &list[string]{}
		o := newOutbox(func(n mcp.JSONRPCNotification) {
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

// The bridge encodes params and results without the copies of mcp-go, and the JSON is the same.
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
		got, fault := (&session{}).splitResponse(mcp.JSONRPCResponse{Result: r})
		same(t, "fault", fault == nil, true)
		same(t, "result", string(got), string(want))
	}
}
