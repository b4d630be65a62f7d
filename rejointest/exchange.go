package rejointest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/pipe"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// maxEvent bounds one event, and a plain answer.
const maxEvent = 32 << 20

// end is how an exchange ended.
type end uint8

const (
	running end = iota
	closed      // the stream ended cleanly
	replied     // another answer came, whole
	broken      // the connection broke, and not by the test
	cut         // the test broke it
)

// exchange is one HTTP request of a call and its response. The fields after conn are guarded by the call's mutex.
type exchange struct {
	call   *Call
	title  string
	conn   *pipe.Conn
	began  time.Duration
	status int // 0: no response yet
	header http.Header
	sse    bool
	wire   bytes.Buffer
	whole  bool // the body was read to its end
	ended  time.Duration
	end    end
	err    error
}

// run sends the request and reads the response. No other goroutine does.
func (x *exchange) run(req *http.Request) {
	defer x.call.c.hangUp(x.conn)
	res, err := fetch(x.conn, req)
	if err != nil {
		x.call.over(x, broken, err)
		return
	}
	x.call.head(x, res)
	body := &tap{x, res.Body}
	if !x.sse {
		data, err := io.ReadAll(io.LimitReader(body, maxEvent))
		if err != nil {
			x.call.over(x, broken, err)
			return
		}
		x.call.plain(x, data)
		x.call.over(x, replied, nil)
		return
	}
	events := sse.NewReader(body, maxEvent)
	for {
		ev, err := events.Next()
		switch {
		case err == nil:
			x.call.event(x, ev)
		case x.whole && !errors.Is(err, io.EOF):
			x.call.fault("the response ended inside an event")
			fallthrough
		case x.whole:
			x.call.over(x, closed, nil)
			return
		default:
			x.call.over(x, broken, err)
			return
		}
	}
}

// String is the exchange as it was on the wire, with the times when it began and ended.
func (x *exchange) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "--- %v: %s\n", x.began, x.title)
	b.Write(x.wire.Bytes())
	if wire := x.wire.Bytes(); len(wire) > 0 && wire[len(wire)-1] != '\n' {
		b.WriteByte('\n')
	}
	if x.end == running {
		b.WriteString("--- open\n")
		return b.String()
	}
	how := map[end]string{closed: "stream closed by the server", replied: "answered", broken: "broken", cut: "cut by the test"}[x.end]
	fmt.Fprintf(&b, "--- %v: %s", x.ended, how)
	if x.err != nil {
		fmt.Fprintf(&b, ": %v", x.err)
	}
	b.WriteByte('\n')
	return b.String()
}

// tap copies a body to the transcript.
type tap struct {
	x    *exchange
	body io.Reader
}

func (r *tap) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.x.call.mu.Lock()
	defer r.x.call.mu.Unlock()
	r.x.wire.Write(p[:n])
	r.x.whole = r.x.whole || err == io.EOF
	return n, err
}

// fetch sends a request and returns the response when its head has come. The end of the request's context breaks the connection.
func fetch(c *pipe.Conn, req *http.Request) (*http.Response, error) {
	context.AfterFunc(req.Context(), c.Reset)
	failed := req.Write(c)
	res, err := http.ReadResponse(bufio.NewReader(c), req) // also after an error: a server may answer before it has read all
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	return res, nil
}

// writeHead writes the head of a response into a transcript, with sorted fields.
func writeHead(w io.Writer, res *http.Response) {
	fmt.Fprintf(w, "%s %s\r\n", res.Proto, res.Status)
	_ = res.Header.Write(w) // w is a buffer, which cannot fail
	fmt.Fprint(w, "\r\n")
}
