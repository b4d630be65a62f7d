//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// rawGuest is a session of a client without a library. It looks into event ids, cuts its connections, and resumes from old cursors.
type rawGuest struct {
	crowd   *crowd
	url     string
	session string
	random  *rand.Rand // of the calls
	ids     int
	calm    bool // it cuts nothing

	leave   context.CancelFunc // ends listening
	hearing sync.WaitGroup
}

const protocol = "2025-11-25"

var errStatus = errors.New("status")

func openRaw(ctx context.Context, c *crowd, url string, r *rand.Rand) (guest, error) {
	g := &rawGuest{crowd: c, url: url, random: r}
	answer, err := g.send(ctx, http.MethodPost, "", []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+protocol+
		`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`))
	if err != nil {
		return nil, err
	}
	text, err := answer.text()
	if err != nil {
		return nil, err
	}
	if g.session = answer.Header.Get("Mcp-Session-Id"); answer.StatusCode != http.StatusOK || g.session == "" {
		return nil, fmt.Errorf("%w %d: %s", errStatus, answer.StatusCode, text)
	}
	answer, err = g.send(ctx, http.MethodPost, "", []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err != nil {
		return nil, err
	}
	if text, err = answer.text(); err != nil || answer.StatusCode != http.StatusAccepted {
		return nil, errors.Join(err, fmt.Errorf("%w %d: %s", errStatus, answer.StatusCode, text))
	}
	listening, leave := context.WithCancel(context.WithoutCancel(ctx))
	g.leave = leave
	heard := make(chan struct{})
	g.hearing.Go(func() { g.listen(listening, rand.New(rand.NewPCG(r.Uint64(), 0)), heard) }) //nolint:gosec // the same for the same seed
	select {
	case <-heard: // an event before that would have no reader, and none is due
	case <-ctx.Done():
		g.close(ctx)
		return nil, context.Cause(ctx)
	}
	return g, nil
}

func (g *rawGuest) id() string    { return g.session }
func (g *rawGuest) listens() bool { return true }

func (g *rawGuest) close(ctx context.Context) {
	g.leave()
	g.hearing.Wait()
	for range 50 {
		answer, err := g.send(ctx, http.MethodDelete, "", nil)
		if err == nil {
			_, _ = answer.text()
			if answer.StatusCode < http.StatusInternalServerError {
				return
			}
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return
		}
	}
}

// response is a response whose silence ends it.
type response struct {
	*http.Response

	cancel  context.CancelFunc
	silence time.Duration
	watch   *time.Timer
}

// send sends a request. The answer must be read to its end, or closed.
func (g *rawGuest) send(ctx context.Context, method, cursor string, body []byte) (*response, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, err := http.NewRequestWithContext(ctx, method, g.url, bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Content-Type", "application/json")
	}
	if g.session != "" {
		r.Header.Set("Mcp-Session-Id", g.session)
		r.Header.Set("Mcp-Protocol-Version", protocol)
	}
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	silence := g.crowd.timing.Silence
	if method == http.MethodPost {
		silence = 30 * time.Second // without an answer it cannot be resumed
	}
	watch := time.AfterFunc(silence, cancel)
	answer, err := g.crowd.http.Do(r) //nolint:bodyclose // response.close does it
	if err != nil {
		watch.Stop()
		cancel()
		return nil, err
	}
	out := &response{answer, cancel, g.crowd.timing.Silence, watch}
	watch.Reset(out.silence)
	return out, nil
}

// Read implements io.Reader. A response that is silent for too long is cut: its server sends comments.
func (r *response) Read(p []byte) (int, error) {
	n, err := r.Body.Read(p)
	r.watch.Reset(r.silence)
	return n, err
}

func (r *response) close() {
	r.watch.Stop()
	r.cancel()
	_ = r.Body.Close()
}

// text reads the rest.
func (r *response) text() (string, error) {
	defer r.close()
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	return string(text), err
}

func (r *response) streams() bool {
	return r.StatusCode == http.StatusOK && strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream")
}

// retryAfter is how long a refusal asks to wait.
func (r *response) retryAfter() time.Duration {
	n, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil {
		return 300 * time.Millisecond
	}
	return time.Duration(n) * time.Second
}

// read reads a connection of a stream to its end, or cuts it. It returns the time after which to come back.
func (g *rawGuest) read(answer *response, s *stream, random *rand.Rand, over func() bool) (retry time.Duration) {
	defer answer.close()
	cuts := !g.calm && random.IntN(5) == 0
	events := sse.NewReader(answer, 1<<20)
	for {
		e, err := events.Next()
		if err != nil {
			return retry
		}
		if cuts && e.HasID { // not before: it could not be resumed
			cuts = false
			defer time.AfterFunc(time.Duration(random.IntN(1500))*time.Millisecond, answer.cancel).Stop()
		}
		if e.Retry >= 0 {
			retry = e.Retry
		}
		s.event(e)
		if over() {
			return 0
		}
	}
}

// listen reads the standalone stream until ctx ends.
func (g *rawGuest) listen(ctx context.Context, random *rand.Rand, heard chan struct{}) {
	all := &record{Name: "the standalone stream of " + g.session[:8]}
	s := newStream(all, func(data []byte) {
		var m rpc
		var text string
		if json.Unmarshal(data, &m) != nil || m.Params.Logger != "aside" || json.Unmarshal(m.Params.Data, &text) != nil {
			g.crowd.ledger.faulty(foreign, "on a standalone stream: "+string(data))
			return
		}
		g.crowd.ledger.aside(g.session, text)
	})
	defer func() {
		for _, f := range all.Faults {
			g.crowd.ledger.faulty(f.What, f.Detail)
		}
	}()
	for ctx.Err() == nil {
		cursor := s.cursor(0)
		wait := 100 * time.Millisecond
		answer, err := g.send(ctx, http.MethodGet, cursor, nil)
		if err == nil && answer.streams() {
			s.begin(cursor, answer.Header.Get(frontHeader))
			if heard != nil {
				close(heard)
				heard = nil
			}
			wait = g.read(answer, s, random, func() bool { return false })
		} else if err == nil {
			_, _ = answer.text()
			wait = answer.retryAfter()
			if answer.StatusCode == http.StatusNotFound {
				return // the judge has it from the sprayer
			}
		}
		_ = pause(ctx, wait) // the loop asks
	}
}
