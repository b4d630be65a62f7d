package scenario

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
)

// target is the server that a loading process loads: its addresses, as in proc.Server, and that of the engine, if it is a process.
type target struct{ Addr, Owner, Admin, Redis string }

func targetOf(s *proc.Server) target { return target{Addr: s.Addr, Owner: s.Owner, Admin: s.Admin} }

// dial connects to the server. When ctx ends, the connection is closed, and what is under way on it fails.
func (t target) dial(ctx context.Context) (c *load.Conn, hangUp func(), err error) {
	if c, err = load.Dial(t.Addr); err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	return c, func() {
		stop()
		_ = c.Close()
	}, nil
}

// each calls do for 0 … n-1, in several workers. Each worker has a connection, which is closed at the end; worker w does w, w+workers, ….
func (t target) each(ctx context.Context, n, workers int, do func(c *load.Conn, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for w := range min(n, workers) {
		wg.Go(func() {
			c, hangUp, err := t.dial(ctx)
			if err != nil {
				cancel(err)
				return
			}
			defer hangUp()
			for i := w; i < n; i += workers {
				if err := do(c, i); err != nil {
					cancel(fmt.Errorf("%d of %d: %w", i, n, err))
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// open opens n sessions over a few connections.
func (t target) open(ctx context.Context, n int) ([]string, error) {
	sessions := make([]string, n)
	t.Addr = cmp.Or(t.Owner, t.Addr)
	err := t.each(ctx, n, 8, func(c *load.Conn, i int) error {
		var err error
		sessions[i], err = load.Open(c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open %d sessions: %w", n, err)
	}
	return sessions, nil
}

// start sends a request whose answer is a stream, and reads the head.
func start(c *load.Conn, raw []byte) error {
	if err := c.Send(raw); err != nil {
		return err
	}
	h, err := c.Head()
	switch {
	case err != nil:
		return err
	case h.Status == http.StatusOK && h.Stream:
		return nil
	}
	body, err := c.Body(nil)
	return errors.Join(fmt.Errorf("no stream, but status %d: %.200s", h.Status, bytes.TrimSpace(body)), err)
}

// trace is what a client has read of a call's stream, over all connections.
type trace struct {
	first, last string // event ids
	primed      bool   // the first id came without a message
	progress    int    // of the last notification
	events      int    // notifications
	answer      bool
	each        func(load.Event) // called for each message, if it is not nil
}

// read reads to the end of the response, or until enough returns true. The notifications must come in order, each at most once, and the
// answer to the call id must contain text.
func (s *trace) read(c *load.Conn, id int, text string, enough func() bool) error {
	for enough == nil || !enough() {
		e, err := c.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.take(e, id, text); err != nil {
			return err
		}
	}
	return nil
}

func (s *trace) take(e load.Event, id int, text string) error {
	if e.ID != "" {
		if s.first == "" {
			s.first, s.primed = e.ID, len(e.Data) == 0
		}
		s.last = e.ID
	}
	switch {
	case len(e.Data) == 0: // a primer or a retry
		return nil
	case s.answer:
		return fmt.Errorf("after the answer: %.200s", e.Data)
	case isProgress(e.Data):
		n, err := progress(e.Data)
		if err != nil || n <= s.progress {
			return fmt.Errorf("after progress %d: %.200s", s.progress, e.Data)
		}
		s.progress = n
		s.events++
	case isAnswer(e.Data, id, text):
		s.answer = true
	default:
		return fmt.Errorf("not expected: %.200s", e.Data)
	}
	if s.each != nil {
		s.each(e)
	}
	return nil
}

func isProgress(data []byte) bool { return bytes.Contains(data, []byte(`"notifications/progress"`)) }

// progress finds the number without decoding the whole message: the load must not be slower than a server.
func progress(data []byte) (int, error) {
	_, after, ok := bytes.Cut(data, []byte(`"progress":`))
	if !ok {
		return 0, errors.New("no progress")
	}
	end := bytes.IndexAny(after, ",} ")
	return strconv.Atoi(string(after[:max(end, 0)]))
}

func isAnswer(data []byte, id int, text string) bool {
	return bytes.Contains(data, fmt.Appendf(nil, `"id":%d`, id)) && bytes.Contains(data, fmt.Appendf(nil, `"text":%q`, text))
}

// settled waits until the number of the server's goroutines is least or more, and no longer changes. This works with every server: by then
// it has started what was asked for, and connections that have ended are gone.
func settled(ctx context.Context, ctl *proc.Control, least int) error {
	for last, same := -1, 0; same < 4; {
		s, err := ctl.Sample(false)
		if err != nil {
			return err
		}
		if s.Goroutines == last && last >= least {
			same++
		} else {
			last, same = s.Goroutines, 0
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server has %d goroutines, at least %d were expected: %w", s.Goroutines, least, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
