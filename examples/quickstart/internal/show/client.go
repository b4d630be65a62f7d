package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

const (
	protocol = "2025-11-25"
	maxEvent = 1 << 20
)

// client calls the tool and polls for the rest, as SEP-1699 requires: when a stream ends without the result, it waits as long as the last
// retry says, and requests the events after the last id.
type client struct {
	url     string
	see     *timeline
	session string

	cursor      string        // the last event id
	retry       time.Duration // the last retry
	connections int
	got         []received
}

// run opens a session, calls the tool, and deletes the session. It returns what was received also with an error.
func (c *client) run(ctx context.Context, steps int) ([]received, error) {
	c.see.sent("POST initialize")
	res, err := c.do(ctx, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+protocol+
		`","capabilities":{},"clientInfo":{"name":"quickstart","version":"1.0.0"}}}`)
	if err != nil {
		return nil, err
	}
	res.Body.Close()
	c.session = res.Header.Get("Mcp-Session-Id")
	c.see.answered(fmt.Sprintf("%d, session opened", res.StatusCode))
	res, err = c.do(ctx, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err != nil {
		return nil, err
	}
	res.Body.Close()

	if err := c.call(ctx, steps); err != nil {
		return c.got, err
	}
	c.see.sent("DELETE, session ended")
	res, err = c.do(ctx, http.MethodDelete, "")
	if err != nil {
		return c.got, err
	}
	return c.got, res.Body.Close()
}

// call calls the tool, and polls until the result has come. It is the part that shows how polling works.
func (c *client) call(ctx context.Context, steps int) error {
	c.see.sent(fmt.Sprintf("POST tools/call long_job, %d steps", steps))
	done, err := c.stream(ctx, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call",`+
		`"params":{"name":"long_job","arguments":{"steps":%d},"_meta":{"progressToken":"p"}}}`, steps))
	for !done && err == nil {
		c.see.waiting(c.retry)
		if err = pause(ctx, c.retry); err != nil {
			break
		}
		c.see.polled(c.cursor)
		done, err = c.stream(ctx, http.MethodGet, "")
	}
	return err
}

// stream sends a request, reads the stream that answers it to its end, and reports whether it had the result.
func (c *client) stream(ctx context.Context, method, body string) (done bool, err error) {
	res, err := c.do(ctx, method, body)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	c.connections++
	form := res.Header.Get("Content-Type")
	c.see.answered(fmt.Sprintf("%d %s", res.StatusCode, form))
	if form != "text/event-stream" {
		return false, errors.New("that is no stream")
	}
	for events := sse.NewReader(res.Body, maxEvent); ; {
		ev, err := events.Next()
		switch {
		case errors.Is(err, io.EOF) && done:
			return true, nil
		case errors.Is(err, io.EOF) && c.cursor != "":
			c.see.closed(c.retry)
			return false, nil
		case err != nil:
			return done, fmt.Errorf("reading a stream: %w", err)
		}
		if ev.Retry >= 0 {
			c.retry = ev.Retry
		}
		if ev.HasID {
			c.cursor = ev.ID
		}
		switch {
		case len(ev.Data) > 0:
			last, err := c.message(ev)
			if err != nil {
				return done, err
			}
			done = done || last
		case ev.HasData:
			c.see.primed(ev.ID, ev.Retry)
		}
	}
}

// message records one JSON-RPC message, and reports whether it was the result.
func (c *client) message(ev sse.Event) (last bool, err error) {
	var m struct {
		ID     int    `json:"id"`
		Method string `json:"method"`
		Params struct {
			Progress float64 `json:"progress"`
			Total    float64 `json:"total"`
		} `json:"params"`
		Result struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(ev.Data, &m); err != nil {
		return false, fmt.Errorf("an event that is no message: %w", err)
	}
	r := received{id: ev.ID, result: m.ID == 2 && m.Method == "" && m.Error == nil}
	switch {
	case m.Error != nil:
		return false, fmt.Errorf("the call failed: %s", m.Error)
	case r.result:
		var texts []string
		for _, part := range m.Result.Content {
			texts = append(texts, part.Text)
		}
		c.see.result(r.id, strings.Join(texts, "\n"))
	case m.Method == "notifications/progress":
		r.step = int(m.Params.Progress)
		c.see.progress(r.id, r.step, int(m.Params.Total))
	default:
		return false, fmt.Errorf("an unexpected message: %s", ev.Data)
	}
	c.got = append(c.got, r)
	return r.result, nil
}

// do sends one request. A status other than 2xx is an error, and so is a poll that is answered with 204.
func (c *client) do(ctx context.Context, method, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
		r.Header.Set("Mcp-Protocol-Version", protocol)
	}
	if method == http.MethodGet {
		r.Header.Set("Last-Event-ID", c.cursor)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 == 2 && (method != http.MethodGet || res.StatusCode == http.StatusOK) {
		return res, nil
	}
	defer res.Body.Close()
	why, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // the part that can be read
	return nil, fmt.Errorf("%s: %s %s", method, res.Status, why)
}
