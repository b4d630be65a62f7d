package rejointest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// head, event, plain and over are called by the goroutine of the exchange x, in this order. If x is not the current exchange any more, they
// only fill its transcript.
func (k *Call) head(x *exchange, res *http.Response) {
	k.mu.Lock()
	defer k.mu.Unlock()
	x.status, x.header = res.StatusCode, res.Header
	x.sse = x.status == http.StatusOK && strings.HasPrefix(x.header.Get("Content-Type"), "text/event-stream")
	writeHead(&x.wire, res)
	k.wake()
}

func (k *Call) event(x *exchange, ev sse.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x != k.current() {
		return
	}
	data, fault := k.log.add(ev)
	if fault != "" {
		k.faultLocked(fault)
	}
	if data != nil {
		k.message(data)
	}
	k.wake()
}

// plain handles an answer that is not a stream.
func (k *Call) plain(x *exchange, data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case x != k.current() || len(data) == 0:
	case x.status == http.StatusOK:
		k.log.messages = append(k.log.messages, entry{data: data})
		k.message(data)
	default:
		m, err := jsonrpc.Parse(data, maxDepth)
		if err != nil || m.Kind != jsonrpc.Failure {
			return
		}
		k.refusal = decodeError(m.Err)
		if string(m.ID) == k.id {
			k.response = &m
		}
	}
	k.wake()
}

// message handles a new message.
func (k *Call) message(data []byte) {
	m, err := jsonrpc.Parse(data, maxDepth)
	switch {
	case err != nil:
		k.faultLocked(fmt.Sprintf("not a JSON-RPC message: %v: %s", err, data))
	case m.Kind == jsonrpc.Request:
		k.c.answer(m)
	case m.Kind == jsonrpc.Notification:
	case string(m.ID) != k.id:
		k.faultLocked(fmt.Sprintf("a response that is not to this request: %s", data))
	case k.response != nil && !expired(data): // a poll with an old cursor may be answered so after the response
		k.faultLocked(fmt.Sprintf("a second response: %s", data))
	default:
		k.response = &m
	}
}

func (k *Call) over(x *exchange, how end, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	x.ended = time.Since(k.c.began)
	if x.end != cut {
		x.end, x.err = how, err
	}
	k.wake()
}

func (k *Call) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// fault fails the test, which continues.
func (k *Call) fault(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faultLocked(what)
}

func (k *Call) faultLocked(what string) {
	k.c.t.Errorf("rejointest: %s: %s; seen so far:\n%s", k.what, what, k.seen())
}

// decodeError reads the error of a response.
func decodeError(raw []byte) *rejoin.Error {
	var e rejoin.Error
	if err := json.Unmarshal(raw, &e); err != nil {
		return rejoin.Errorf(rejoin.CodeInternal, "rejointest: the error is malformed: %s", raw)
	}
	return &e
}
