package respond

import (
	"errors"
	"fmt"
	"net/http"
)

// relayWriter is the ResponseWriter that the handler of a Relay gets. SDKs write from the goroutines of tools, even after their handler
// has returned. So what they write is handed to the goroutine that serves the request: only that one touches the real writer, and it can
// put comments between two events. When that goroutine has left, the Collector gets what is written. The writer has no deadlines, which are
// ours, no trailers and no Unwrap.
type relayWriter struct {
	header http.Header // the handler's; begins with what outer middleware has set
	orders chan relayOrder
	over   chan struct{} // closed: no more orders are taken
	left   chan struct{} // closed: to takes the orders; nil: it never will
	to     *Collector    // set before left is closed
}

// relayOrder is one thing to do with the real writer. A head comes with each, if there was none.
type relayOrder struct {
	status  int
	data    []byte // the writer waits, so it need not be copied
	flush   bool
	message []byte     // of ours, to be sent between two events of the handler; nil with begin: only begin a stream
	begin   bool       // the order is about a message
	sent    func()     // called when the message was written to the client; nil: nobody asks
	done    chan error // has room
}

func newRelayWriter(header http.Header) relayWriter {
	if header == nil {
		header = http.Header{}
	}
	return relayWriter{header: header, orders: make(chan relayOrder), over: make(chan struct{})}
}

var errRelayOver = errors.New("rejoin: the handler has returned, and its response has ended")

func (w *relayWriter) order(o relayOrder) error {
	o.done = make(chan error, 1)
	select {
	case w.orders <- o:
	case <-w.left:
		return w.to.obey(o, w.header)
	case <-w.over:
		return errRelayOver
	}
	select {
	case err := <-o.done:
		return err
	case <-w.over: // a middleware's writer may have panicked
	}
	select {
	case err := <-o.done:
		return err
	default:
		return errRelayOver
	}
}

// Header is read when the head is sent.
func (w *relayWriter) Header() http.Header { return w.header }

// WriteHeader panics as net/http's does, here and not where others would be harmed.
func (w *relayWriter) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	_ = w.order(relayOrder{status: status}) // the next Write says so, too
}

// Write returns when the real writer has taken the data, or has failed.
func (w *relayWriter) Write(data []byte) (int, error) {
	if err := w.order(relayOrder{data: data}); err != nil {
		return 0, err
	}
	return len(data), nil
}

// flushingRelayWriter is one whose real writer can flush: SDKs look for the method to find out.
type flushingRelayWriter struct{ *relayWriter }

func (w flushingRelayWriter) Flush() { _ = w.FlushError() }

func (w flushingRelayWriter) FlushError() error { return w.order(relayOrder{flush: true}) }
