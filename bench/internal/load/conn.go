// Package load is an HTTP/1.1 client for MCP that uses little CPU: requests are prepared as bytes, and responses are parsed only as far as
// needed. It is for servers on the same machine, and trusts them to send well-formed HTTP.
package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Conn is one connection. It carries one request at a time, and is not safe for concurrent use.
type Conn struct {
	net   net.Conn
	r     *bufio.Reader
	rest  rest
	lines *bufio.Reader // of the response's body, for Next; made when first needed
	body  []byte
	event Event
}

// Head has the parts of a response's head that this package uses.
type Head struct {
	Status  int
	Session string // Mcp-Session-Id
	Stream  bool   // text/event-stream
	Length  int64  // of the body; -1 if it was not announced
	Close   bool   // the server ends the connection after this response
}

// Dial opens a TCP connection to addr.
func Dial(addr string) (*Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{net: c, r: bufio.NewReaderSize(c, 4096)}, nil
}

// Close ends the connection, also in the middle of a request. Another goroutine may call it.
func (c *Conn) Close() error { return c.net.Close() }

// SetDeadline sets the deadline of all reads and writes.
func (c *Conn) SetDeadline(t time.Time) error { return c.net.SetDeadline(t) }

// Send sends a whole request. The previous response must have been read to its end.
func (c *Conn) Send(raw []byte) error {
	_, err := c.net.Write(raw)
	return err
}

// Head reads the head of the response.
func (c *Conn) Head() (Head, error) {
	h := Head{Length: -1}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return h, unexpected(err)
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return h, fmt.Errorf("no status line: %.80q", line)
	}
	for _, d := range line[len("HTTP/1.1 "):len("HTTP/1.1 200")] {
		h.Status = 10*h.Status + int(d-'0')
	}
	chunked := false
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return h, unexpected(err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch { // the lengths first: comparing without case is slow
		case len(name) == len("content-length") && bytes.EqualFold(name, []byte("content-length")):
			if h.Length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return h, err
			}
		case len(name) == len("content-type") && bytes.EqualFold(name, []byte("content-type")):
			h.Stream = bytes.HasPrefix(value, []byte("text/event-stream"))
		case len(name) == len("mcp-session-id") && bytes.EqualFold(name, []byte("mcp-session-id")):
			h.Session = string(value)
		case len(name) == len("transfer-encoding") && bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		case len(name) == len("connection") && bytes.EqualFold(name, []byte("connection")):
			h.Close = bytes.EqualFold(value, []byte("close"))
		}
	}
	if h.Status == 204 || h.Status == 304 {
		h.Length, chunked = 0, false
	}
	c.rest = rest{r: c.r, left: h.Length, chunked: chunked}
	if chunked {
		c.rest.left = 0
	}
	return h, nil
}

// Body appends the rest of the body to buf.
func (c *Conn) Body(buf []byte) ([]byte, error) {
	if c.rest.left > 0 && !c.rest.chunked {
		n := len(buf)
		buf = append(buf, make([]byte, c.rest.left)...)
		_, err := io.ReadFull(c.r, buf[n:])
		c.rest.left = 0
		return buf, err
	}
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := c.rest.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}

// Answer reads the response to its end and returns its message, or the last message of a stream. It is valid until the next call.
func (c *Conn) Answer(h Head) ([]byte, error) {
	if !h.Stream {
		var err error
		c.body, err = c.Body(c.body[:0])
		return c.body, err
	}
	c.body = c.body[:0]
	for {
		e, err := c.Next()
		if errors.Is(err, io.EOF) {
			return c.body, nil
		}
		if err != nil {
			return nil, err
		}
		if len(e.Data) > 0 {
			c.body = append(c.body[:0], e.Data...)
		}
	}
}

// rest reads the rest of a body, and not a byte beyond it.
type rest struct {
	r       *bufio.Reader
	left    int64 // bytes of the body or of the chunk; -1: up to the end of the connection
	chunked bool
	begun   bool // a chunk was read, but not the line end after it
	done    bool
}

// Read implements io.Reader.
func (b *rest) Read(p []byte) (int, error) {
	if b.left == 0 && b.chunked && !b.done {
		if err := b.chunk(); err != nil {
			return 0, err
		}
	}
	if b.left == 0 || b.done {
		return 0, io.EOF
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
		err = unexpected(err)
	}
	return n, err
}

// chunk reads the line before a chunk; after the last one also the line that ends the body.
func (b *rest) chunk() error {
	if b.begun {
		if _, err := b.r.Discard(len("\r\n")); err != nil {
			return unexpected(err)
		}
	}
	b.begun = true
	line, err := b.r.ReadSlice('\n')
	if err != nil {
		return unexpected(err)
	}
	size := strings.TrimRight(string(line), "\r\n")
	if b.left, err = strconv.ParseInt(size, 16, 64); err != nil {
		return err
	}
	if b.left == 0 {
		b.done = true
		_, err = b.r.Discard(len("\r\n"))
	}
	return unexpected(err)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
