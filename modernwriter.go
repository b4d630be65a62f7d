package rejoin

import (
	"errors"
	"fmt"
	"net/http"
)

// modernWriter is the ResponseWriter that the app's own handler gets for a request of the modern era. SDKs write from the goroutines
// of tools, also when their handler has returned; so what they write is handed to the goroutine inside Serve, which alone touches the
// real one, and can put comments between two events. It knows no deadlines, which are ours, no trailers, and has no Unwrap.
type modernWriter struct {
	header http.Header // the handler's; begins with what outer middleware has set
	orders chan modernOrder
	over   chan struct{} // closed: no more orders are taken
}

// modernOrder is one thing to do with the real writer. A head comes with each, if there was none.
type modernOrder struct {
	status int
	data   []byte // the writer waits, so it need not be copied
	flush  bool
	done   chan error // has room
}

func newModernWriter(w http.ResponseWriter) modernWriter {
	header := w.Header().Clone()
	if header == nil {
		header = http.Header{}
	}
	return modernWriter{header: header, orders: make(chan modernOrder), over: make(chan struct{})}
}

var errModernOver = errors.New("rejoin: the handler has returned, and its response has ended")

func (w *modernWriter) order(o modernOrder) error {
	o.done = make(chan error, 1)
	select {
	case w.orders <- o:
	case <-w.over:
		return errModernOver
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
		return errModernOver
	}
}

// Header is read when the head is sent.
func (w *modernWriter) Header() http.Header { return w.header }

// WriteHeader panics as net/http's does, here and not where others would be harmed.
func (w *modernWriter) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	_ = w.order(modernOrder{status: status}) // the next Write says so, too
}

// Write returns when the real writer has taken the data, or has failed.
func (w *modernWriter) Write(data []byte) (int, error) {
	if err := w.order(modernOrder{data: data}); err != nil {
		return 0, err
	}
	return len(data), nil
}

// flushingModernWriter is one whose real writer can flush: SDKs look for the method to find out.
type flushingModernWriter struct{ *modernWriter }

func (w flushingModernWriter) Flush() { _ = w.FlushError() }

func (w flushingModernWriter) FlushError() error { return w.order(modernOrder{flush: true}) }
