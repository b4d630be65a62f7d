package rejointest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	// defaultRetry is how long the client waits if the server sent no retry.
	defaultRetry = time.Second
	// maxIdlePolls is how many times in a row a client polls without a new event id before it gives up.
	maxIdlePolls = 5
)

// Call is one request and its stream, over all the connections that read it; or, from Listen, the standalone stream. It reads by itself what
// comes. It polls only when it is told to: by Poll, or by Result and Err, which do what a good client does.
//
// Every method first waits until the bubble is at rest, so "so far" means all that can happen before time passes. A method fails the test
// where its comment says so. Also, the test fails, and continues, if on the connections of the call an event id comes twice, a replay differs
// from what was sent before, or a message is not JSON-RPC or is the response to another request.
type Call struct {
	c    *Client
	what string // its name in failures of the test
	id   string // of the request; "": the standalone stream

	mu        sync.Mutex
	changed   chan struct{}
	exchanges []*exchange
	log       streamLog
	response  *jsonrpc.Message
	refusal   *rejoin.Error // of the last connection
}

func (c *Client) newCall(what, id string) *Call {
	return &Call{c: c, what: what, id: id, changed: make(chan struct{}, 1), log: newStreamLog()}
}

// send starts an exchange, which becomes the current one, and waits until the bubble is at rest.
func (k *Call) send(req *http.Request, title string) {
	k.c.t.Helper()
	conn, err := k.c.dial()
	if err != nil {
		k.fatalf("%s: %v", title, err)
	}
	x := &exchange{call: k, title: title, conn: conn, began: time.Since(k.c.began)}
	k.mu.Lock()
	k.exchanges, k.refusal = append(k.exchanges, x), nil
	k.mu.Unlock()
	k.c.work.Go(func() { x.run(req) })
	synctest.Wait()
}

// current is the newest exchange. A client that polls does not read its old connection any more.
func (k *Call) current() *exchange { return k.exchanges[len(k.exchanges)-1] }

// ID is the request's JSON-RPC id, as sent; nil for the standalone stream.
func (k *Call) ID() json.RawMessage {
	if k.id == "" {
		return nil
	}
	return json.RawMessage(k.id)
}

// WaitClosed waits until the server closes the stream before the response, and returns the last retry that it sent, 0 if none. It
// returns at once if the stream is closed already. It fails the test if the response comes first, if the answer is not a
// stream, or if the connection breaks.
func (k *Call) WaitClosed() (retry time.Duration) {
	k.c.t.Helper()
	k.wait("the server to close the stream", func() bool { return k.current().end != running })
	k.mu.Lock()
	defer k.mu.Unlock()
	switch x := k.current(); {
	case k.response != nil:
		k.fatalLocked("the response came before the stream was closed")
	case x.end == replied:
		k.fatalLocked("the request was not answered with a stream")
	case x.end != closed:
		k.fatalLocked("the connection ended, but the server did not close it")
	}
	return max(k.log.retry, 0)
}

// WaitMessages waits until n messages have come in all. It does not poll. It returns all that have come, as Messages does, and fails the
// test if the connection ends first.
func (k *Call) WaitMessages(n int) []json.RawMessage {
	k.c.t.Helper()
	k.wait(fmt.Sprintf("%d messages", n), func() bool { return len(k.log.messages) >= n || k.current().end != running })
	all := k.Messages()
	if len(all) < n {
		k.fatalf("%d messages came, not %d, before the connection ended", len(all), n)
	}
	return all
}

// Result waits for the response and returns its result. It polls as a good client does: when the connection has ended, it waits as long
// as the server asked, in virtual time, and polls. It fails the test if the response is an error, if a poll is refused or answered with 204,
// if the client has no event id to poll with, and if five polls in a row bring no new event id: the official Go client then ends
// its session.
func (k *Call) Result() json.RawMessage {
	k.c.t.Helper()
	if e := k.finish(); e != nil {
		k.fatalf("%v %s", e, e.Data)
	}
	return k.response.Result
}

// Err is Result for a response that is an error, and for the error with which the request or a poll was refused. It fails the test if there
// is a result.
func (k *Call) Err() *rejoin.Error {
	k.c.t.Helper()
	e := k.finish()
	if e == nil {
		k.fatalf("the response is not an error: %s", k.response.Result)
	}
	return e
}

// finish polls until the call has ended, and returns its error.
func (k *Call) finish() *rejoin.Error {
	k.c.t.Helper()
	limit := time.Now().Add(k.c.cfg.Patience)
	idle, cursor := 0, ""
	for {
		k.waitUntil(limit, "the response", func() bool { return k.response != nil || k.current().end != running })
		k.mu.Lock()
		x, response, refusal, retry := k.current(), k.response, k.refusal, k.log.retry
		if k.log.cursor == cursor {
			idle++
		} else {
			idle, cursor = 0, k.log.cursor
		}
		k.mu.Unlock()
		switch {
		case refusal != nil:
			return refusal
		case response != nil && response.Kind == jsonrpc.Failure:
			return decodeError(response.Err)
		case response != nil:
			return nil
		case x.end == replied:
			k.fatalf("answered with status %d, and without a response", x.status)
		case cursor == "":
			k.fatalf("the connection ended, and a client that has no event id cannot come back")
		case !time.Now().Before(limit):
			k.fatalf("polled for %v, and the response did not come", k.c.cfg.Patience)
		case idle == maxIdlePolls:
			k.fatalf("came back %d times, and got no new event id: clients give up", idle)
		}
		if retry < 0 {
			retry = defaultRetry
		}
		time.Sleep(retry)
		k.Poll()
	}
}

// Poll polls now: it sends a GET with the last event id, over a new connection. If the old connection is still open it stays so: to a
// server it looks like one that has died, and the server has to end it. What still comes over it does not count.
//
// Poll returns when all has come that can come now.
func (k *Call) Poll() {
	k.c.t.Helper()
	synctest.Wait()
	k.mu.Lock()
	cursor := k.log.cursor
	k.log.rewind(cursor)
	k.mu.Unlock()
	if cursor == "" && k.id != "" {
		k.fatalf("no event id came yet, so there is nothing to come back with")
	}
	k.poll(cursor)
}

// PollFrom is Poll with another event id: one from IDs, as a client that has lost what came later, or one that the server never sent. What
// came after that id has to come again unchanged.
func (k *Call) PollFrom(id string) {
	k.c.t.Helper()
	synctest.Wait()
	k.mu.Lock()
	k.log.rewind(id)
	k.mu.Unlock()
	k.poll(id)
}

func (k *Call) poll(cursor string) {
	k.c.t.Helper()
	req, title := k.c.request(http.MethodGet, nil), "GET"
	if cursor != "" {
		req.Header[cursorHeader] = []string{cursor}
		title += ", Last-Event-ID: " + cursor
	}
	k.send(req, title)
}

// Cut breaks the connection, as a proxy or a network does: both ends get an error, and what was on its way is lost. It does nothing if no
// connection is open.
func (k *Call) Cut() {
	synctest.Wait()
	k.mu.Lock()
	x := k.current()
	if x.end == running {
		x.end = cut
		x.conn.Reset()
	}
	k.mu.Unlock()
	synctest.Wait()
}

// Freeze stops reading the connection, until Thaw: the other end can write 64 KiB more, and then has to wait. Later connections
// are not frozen, so Freeze and then Poll is a laptop that was closed and opened.
func (k *Call) Freeze() {
	synctest.Wait()
	k.mu.Lock()
	k.current().conn.Freeze(true)
	k.mu.Unlock()
	synctest.Wait()
}

// Thaw continues reading where Freeze stopped.
func (k *Call) Thaw() {
	k.mu.Lock()
	for _, x := range k.exchanges {
		x.conn.Freeze(false)
	}
	k.mu.Unlock()
	synctest.Wait()
}

// Cancel sends notifications/cancelled for the request.
func (k *Call) Cancel(reason string) {
	k.c.t.Helper()
	k.c.Notify("notifications/cancelled", map[string]any{"requestId": k.ID(), "reason": reason})
}
