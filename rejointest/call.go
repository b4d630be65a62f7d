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
	// defaultRetry is what clients wait where the server said nothing.
	defaultRetry = time.Second
	// maxIdlePolls is how often clients come back without having been given a new event id, before they give up.
	maxIdlePolls = 5
)

// Call is one request and its stream, over all the connections that read it; or, from Listen, the standalone stream. It reads what
// comes on its own. It comes back only when told: by Poll, or by Result and Err, which do what a good client does.
//
// Every method lets the bubble come to rest before it looks, so "so far" means all that can happen without time passing. Each fails
// the test where it says so. Besides, the test fails, and goes on, if on the connections of the call an event id comes twice, a
// replay is not what was sent before, or a message is no JSON-RPC or the response to another request.
type Call struct {
	c    *Client
	what string // for messages
	id   string // of the request; "": the standalone stream

	mu        sync.Mutex
	changed   chan struct{}
	exchanges []*exchange
	chain     chain
	response  *jsonrpc.Message
	refusal   *rejoin.Error // the last connection was refused with it
}

func (c *Client) newCall(what, id string) *Call {
	return &Call{c: c, what: what, id: id, changed: make(chan struct{}, 1), chain: newChain()}
}

// send starts an exchange, which is the one that counts from now on, and lets the bubble come to rest.
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

// current is the exchange that counts: a client that has come back does not listen to its old connection.
func (k *Call) current() *exchange { return k.exchanges[len(k.exchanges)-1] }

// ID is the request's JSON-RPC id, as sent; nil for the standalone stream.
func (k *Call) ID() json.RawMessage {
	if k.id == "" {
		return nil
	}
	return json.RawMessage(k.id)
}

// WaitClosed waits until the server closes the stream before the response, and returns the last retry it was told, 0 if none. It
// returns at once if the stream is closed already. It fails the test if the call ends first: by a response, by another
// answer than a stream, or because the connection breaks.
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
	return max(k.chain.retry, 0)
}

// WaitMessages waits until there are n messages in all, on the connections there are: it does not poll. It returns all there
// are, as Messages does, and fails the test if the connection ends first.
func (k *Call) WaitMessages(n int) []json.RawMessage {
	k.c.t.Helper()
	k.wait(fmt.Sprintf("%d messages", n), func() bool { return len(k.chain.log) >= n || k.current().end != running })
	all := k.Messages()
	if len(all) < n {
		k.fatalf("%d messages came, not %d, before the connection ended", len(all), n)
	}
	return all
}

// Result waits for the response and returns its result. It polls as a good client does: whenever the connection has ended, it
// waits as long as the server said, in virtual time, and comes back. It fails the test if the response is an error, if
// a poll is refused or answered with "nothing left", where a client could not come back for want of an event id, and where it
// has come back five times without a new one: the official Go client then ends its session.
func (k *Call) Result() json.RawMessage {
	k.c.t.Helper()
	if e := k.finish(); e != nil {
		k.fatalf("%v %s", e, e.Data)
	}
	return k.response.Result
}

// Err is Result for an error response, or for the error with which the request or a poll was refused. It fails the test where
// there is a result.
func (k *Call) Err() *rejoin.Error {
	k.c.t.Helper()
	e := k.finish()
	if e == nil {
		k.fatalf("the response is no error: %s", k.response.Result)
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
		x, response, refusal, retry := k.current(), k.response, k.refusal, k.chain.retry
		if k.chain.cursor == cursor {
			idle++
		} else {
			idle, cursor = 0, k.chain.cursor
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

// Poll comes back now, over a new connection, with the last event id. It leaves the old connection open, if it is: a server
// cannot tell it from one that died, and has to end it. What it brings from now on is not read as part of the call.
//
// It returns when all has come that can come now.
func (k *Call) Poll() {
	k.c.t.Helper()
	synctest.Wait()
	k.mu.Lock()
	cursor := k.chain.cursor
	k.chain.rewind(cursor)
	k.mu.Unlock()
	if cursor == "" && k.id != "" {
		k.fatalf("no event id came yet, so there is nothing to come back with")
	}
	k.poll(cursor)
}

// PollFrom is Poll with another event id: one from IDs, as of a client that lost what came later, or one that never was. What was
// received before has to come again as it was.
func (k *Call) PollFrom(id string) {
	k.c.t.Helper()
	synctest.Wait()
	k.mu.Lock()
	k.chain.rewind(id)
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

// Cut breaks the connection, as a proxy or a network does: both ends get an error, and what was under way is lost. Without
// one that is open it does nothing.
func (k *Call) Cut() {
	synctest.Wait()
	k.mu.Lock()
	x := k.current()
	if x.end == running {
		x.end = cut
		x.conn.reset()
	}
	k.mu.Unlock()
	synctest.Wait()
}

// Freeze stops reading the connection, until Thaw: the other end can write 64 KiB more, and then nothing. A connection that
// is made later is not frozen, so Freeze and Poll are what the lid of a laptop does.
func (k *Call) Freeze() {
	synctest.Wait()
	k.mu.Lock()
	k.current().conn.freeze(true)
	k.mu.Unlock()
	synctest.Wait()
}

// Thaw goes on reading where Freeze stopped.
func (k *Call) Thaw() {
	k.mu.Lock()
	for _, x := range k.exchanges {
		x.conn.freeze(false)
	}
	k.mu.Unlock()
	synctest.Wait()
}

// Cancel sends notifications/cancelled for the request.
func (k *Call) Cancel(reason string) {
	k.c.t.Helper()
	k.c.Notify("notifications/cancelled", map[string]any{"requestId": k.ID(), "reason": reason})
}
