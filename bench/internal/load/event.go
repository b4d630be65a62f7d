package load

import (
	"bufio"
	"bytes"
	"errors"
	"strconv"
	"time"
)

// Event is one event of a stream, or a block that has only an id, as a primer has, or only a retry.
type Event struct {
	ID    string
	Retry time.Duration
	Data  []byte // valid until the next call
}

// Next reads the response's next event. At the response's end it returns io.EOF, and the connection can be used again. Read a response
// with Next or with Body, not with both: Next reads ahead.
func (c *Conn) Next() (Event, error) {
	if c.lines == nil {
		c.lines = bufio.NewReaderSize(&c.rest, 32<<10)
	}
	e := Event{Data: c.event.Data[:0]}
	some, data := false, false
	for {
		line, err := c.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if some {
				c.event = e
				return e, nil
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if data {
				e.Data = append(e.Data, '\n')
			}
			e.Data = append(e.Data, value...)
			some, data = true, true
		case "id":
			e.ID, some = string(value), true
		case "retry":
			ms, err := strconv.Atoi(string(value))
			if err != nil {
				return Event{}, err
			}
			e.Retry, some = time.Duration(ms)*time.Millisecond, true
		}
	}
}

// line returns the next line without its line end. It is valid until the next call.
func (c *Conn) line() ([]byte, error) {
	line, err := c.lines.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		var more []byte
		line = bytes.Clone(line)
		more, err = c.lines.ReadBytes('\n')
		line = append(line, more...)
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
