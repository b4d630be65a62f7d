package rawhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

var errorf = fmt.Errorf

// eventID matches the ids that rejoin writes: a stream, a sequence and, if it is not an event's, a nonce.
var eventID = regexp.MustCompile(`^([A-Za-z0-9_-]{22})\.([0-9]+)(\.[0-9a-z]+)?$`)

// checkStream checks a text/event-stream from its beginning: byte by byte against what rejoin writes, and by the reader of package sse. ended:
// the stream is complete; otherwise body is what the server has written so far.
func checkStream(body []byte, ended bool) error {
	blocks := strings.Split(string(body), "\n\n")
	last := blocks[len(blocks)-1]
	if ended && last != "" {
		return errorf("the stream ends inside an event: %q", body)
	}
	var s streamState
	for i, block := range blocks[:len(blocks)-1] {
		if err := s.block(block, i == 0); err != nil {
			return errorf("%w: %q of %q", err, block, body)
		}
	}
	return s.compare(body, ended)
}

// streamState is what is known from the blocks of a stream so far.
type streamState struct {
	name        string // of the stream, from its ids; "": no block had an id
	polls       bool   // it began with a primer
	ids         []string
	seq         uint64 // of the last id
	noSequences bool   // errors with a nonce instead of a sequence come instead of events
	bareRetry   bool   // a bare retry has come
	events      []sse.Event
}

// block checks a block, given without its blank line.
func (s *streamState) block(block string, first bool) error {
	if strings.HasPrefix(block, ":") {
		if strings.Contains(block, "\n") {
			return errors.New("a comment is a block of its own")
		}
		return nil
	}
	if s.bareRetry {
		return errors.New("something comes after a bare retry")
	}
	e := sse.Event{Retry: -1}
	seen := map[string]bool{}
	for line := range strings.SplitSeq(block, "\n") {
		name, value, found := strings.Cut(line, ": ")
		switch {
		case !found || strings.ContainsAny(value, "\r\x00"):
			return errors.New("a line is no field")
		case seen[name] && name != "data":
			return errors.New("a field stands there twice")
		}
		seen[name] = true
		switch name {
		case "id":
			e.ID, e.HasID = value, true
		case "event":
			e.Name = value
		case "data":
			if e.HasData {
				e.Data = append(e.Data, '\n')
			}
			e.Data, e.HasData = append(e.Data, value...), true
		case "retry":
			ms, err := strconv.ParseUint(value, 10, 32)
			if err != nil || ms == 0 {
				return errors.New("retry is no number of milliseconds")
			}
			e.Retry = 0
		default:
			return errors.New("there is no such field")
		}
	}
	s.events = append(s.events, e)
	return s.event(e, first)
}

func (s *streamState) event(e sse.Event, first bool) error {
	switch {
	case len(e.Data) > 0:
		if e.Name != "message" {
			return errors.New("a message is named message")
		}
		if e.Retry >= 0 {
			return errors.New("a message carries retry")
		}
		if _, err := jsonrpc.Parse(e.Data, maxDepth); err != nil {
			return err
		}
	case e.Name != "":
		return errors.New("it has a name and no data")
	case e.HasData && !(first && e.HasID && e.Retry >= 0):
		return errors.New("a primer is first, and has id and retry")
	case !e.HasData:
		if e.HasID || e.Retry < 0 || !s.polls {
			return errors.New("a block without data is a bare retry, after a primer")
		}
		s.bareRetry = true
	}
	if !e.HasID {
		return nil
	}
	return s.id(e)
}

// id checks that the ids are those of one stream, without a gap.
func (s *streamState) id(e sse.Event) error {
	m := eventID.FindStringSubmatch(e.ID)
	if m == nil {
		return errors.New("the id is not rejoin's")
	}
	seq, err := strconv.ParseUint(m[2], 10, 64)
	primer := len(e.Data) == 0
	switch {
	case err != nil:
		return err
	case slices.Contains(s.ids, e.ID):
		return errors.New("an id comes twice")
	case s.name != "" && s.name != m[1]:
		return errors.New("a connection reads one stream")
	case primer && m[3] == "":
		return errors.New("a primer's id has a nonce")
	case !primer && m[3] == "" && s.name != "" && (seq != s.seq+1 || s.noSequences):
		return errors.New("there is a gap")
	case !primer && m[3] != "" && !s.polls:
		return errors.New("an error without a number is for clients that poll")
	}
	s.polls = s.polls || primer
	s.name, s.seq, s.noSequences = m[1], seq, !primer && m[3] != ""
	s.ids = append(s.ids, e.ID)
	return nil
}

// compare reads the stream again, with package sse, and compares the events.
func (s *streamState) compare(body []byte, ended bool) error {
	r := sse.NewReader(bytes.NewReader(body), 1<<20)
	for i := 0; ; i++ {
		e, err := r.Next()
		if err != nil {
			if i != len(s.events) || ended && !errors.Is(err, io.EOF) {
				return errorf("after %d of %d events: %w", i, len(s.events), err)
			}
			return nil
		}
		if i == len(s.events) || e.ID != s.events[i].ID || !bytes.Equal(e.Data, s.events[i].Data) || e.Name != s.events[i].Name {
			return errorf("event %d is read as %+v", i, e)
		}
	}
}
