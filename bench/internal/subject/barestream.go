package subject

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
)

// bareCall is a call of a tool of bare. notify is nil if there is no stream, closeStream if the stream cannot be closed.
type bareCall struct {
	params      callParams
	notify      func(data []byte)
	closeStream func()
}

// run runs a tool.
func (b *bare) run(ctx context.Context, c *bareCall) (*callResult, error) {
	switch c.params.Name {
	case Echo:
		var args echoArgs
		if err := c.params.bind(&args); err != nil {
			return nil, err
		}
		return textResult(args.Text), nil
	case Burst:
		var args burstArgs
		if err := c.params.bind(&args); err != nil {
			return nil, err
		}
		return b.burst(c, args)
	case Hold:
		var args holdArgs
		if err := c.params.bind(&args); err != nil {
			return nil, err
		}
		if args.Close && c.closeStream != nil {
			c.closeStream()
		}
		select {
		case <-b.gate.Done():
			return textResult(holdAnswer + args.Text), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, unknownTool(c.params.Name)
}

func (b *bare) burst(c *bareCall, args burstArgs) (*callResult, error) {
	if args.Close && c.closeStream != nil {
		c.closeStream()
	}
	if c.notify == nil || c.params.Meta.Token == nil {
		return textResult(burstAnswer), nil
	}
	type notification struct {
		Version string         `json:"jsonrpc"`
		Method  string         `json:"method"`
		Params  progressParams `json:"params"`
	}
	for i := range args.N {
		data, err := json.Marshal(notification{"2.0", "notifications/progress", progressParams{
			Token: c.params.Meta.Token, Progress: float64(i + 1), Total: float64(args.N), Message: stepMessage,
		}})
		if err != nil {
			return nil, err
		}
		c.notify(data)
	}
	return textResult(burstAnswer), nil
}

// call serves tools/call.
func (b *bare) call(w http.ResponseWriter, r *http.Request, s *bareSession, m *bareRequest) {
	c := &bareCall{}
	if err := json.Unmarshal(m.Params, &c.params); err != nil {
		b.answer(w, m, nil, err)
		return
	}
	switch {
	case b.stores:
		b.callStored(w, r, s, m, c)
	case b.stream:
		b.callStreamed(w, r, m, c)
	default:
		result, err := b.run(r.Context(), c)
		b.answer(w, m, result, err)
	}
}

// callStreamed answers with a stream that is not recorded: a primer at once, the result with the end of the response.
func (b *bare) callStreamed(w http.ResponseWriter, r *http.Request, m *bareRequest, c *bareCall) {
	out := beginStream(w)
	out.prime("0")
	out.flush()
	c.notify = func(data []byte) {
		out.event("", data)
		out.flush()
	}
	result, err := b.run(r.Context(), c)
	if data, err := respond(m.ID, result, err); err == nil {
		out.event("", data)
	}
}

// get resumes a stream, or serves the standalone stream, on which nothing is ever sent.
func (b *bare) get(w http.ResponseWriter, r *http.Request) {
	if !accepts(r, "text/event-stream") {
		http.Error(w, "text/event-stream must be acceptable", http.StatusNotAcceptable)
		return
	}
	s := b.session(w, r)
	if s == nil {
		return
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" && b.stores {
		b.resume(w, r, s, last)
		return
	}
	out := beginStream(w)
	if b.stream {
		out.prime("standalone." + strconv.Itoa(s.log.primer()))
	}
	out.flush()
	select {
	case <-r.Context().Done():
	case <-s.ctx.Done():
	}
}

// sseWriter writes events.
type sseWriter struct {
	w   http.ResponseWriter
	out *http.ResponseController
	buf []byte
}

func beginStream(w http.ResponseWriter) *sseWriter {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return &sseWriter{w: w, out: http.NewResponseController(w)}
}

// prime writes a primer: an event id, and the time after which to poll.
func (s *sseWriter) prime(id string) {
	s.buf = append(s.buf[:0], "id: "...)
	s.buf = append(s.buf, id...)
	s.buf = append(s.buf, "\nretry: "...)
	s.buf = strconv.AppendInt(s.buf, retryMillis, 10)
	s.buf = append(s.buf, "\ndata: \n\n"...)
	_, _ = s.w.Write(s.buf)
}

// event writes a message. An empty id is not written.
func (s *sseWriter) event(id string, data []byte) {
	s.buf = s.buf[:0]
	if id != "" {
		s.buf = append(s.buf, "id: "...)
		s.buf = append(s.buf, id...)
		s.buf = append(s.buf, '\n')
	}
	s.buf = append(s.buf, "data: "...)
	s.buf = append(s.buf, data...)
	s.buf = append(s.buf, "\n\n"...)
	_, _ = s.w.Write(s.buf)
}

// retry writes the time after which to poll, before the response ends.
func (s *sseWriter) retry() {
	s.buf = append(s.buf[:0], "retry: "...)
	s.buf = strconv.AppendInt(s.buf, retryMillis, 10)
	s.buf = append(s.buf, "\n\n"...)
	_, _ = s.w.Write(s.buf)
}

func (s *sseWriter) flush() { _ = s.out.Flush() }
