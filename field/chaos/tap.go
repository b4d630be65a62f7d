//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// taps are what passes through the sprayer of each call, whatever its client makes of it. So it can be told what an SDK does not tell: which
// answer has come, and from where a call could have been resumed.
type taps struct {
	mu      sync.Mutex
	calls   map[string]*tap // by the name of the call
	streams map[string]*tap // by the name of its stream
}

// tap is what has passed of one call.
type tap struct {
	all  *taps
	name string
	id   string // of the request, as its client wrote it

	mu      sync.Mutex
	session string
	path    string
	fronts  []string
	lastID  string // the newest event id that was passed on
	answer  string // "": none has passed; resultPassed, or the reason of an error
	at      time.Time
	status  int // of the answer to its request
}

const resultPassed = "result"

func newTaps() *taps { return &taps{calls: map[string]*tap{}, streams: map[string]*tap{}} }

// rpc is any message, as far as it matters here.
type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Arguments struct {
			Call string `json:"call"`
		} `json:"arguments"`
		ProgressToken json.RawMessage `json:"progressToken"`
		Progress      float64         `json:"progress"`
		Message       string          `json:"message"`
		Logger        string          `json:"logger"`
		Data          json.RawMessage `json:"data"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Reason string `json:"reason"`
	} `json:"data"`
}

// why names an error: its reason, or else its text.
func (e *rpcError) why() string {
	if e.Data.Reason != "" {
		return e.Data.Reason
	}
	return "error: " + e.Message
}

// streamOf returns the name of the stream of an event id.
func streamOf(id string) string {
	name, _, _ := strings.Cut(id, ".")
	return name
}

// about returns the tap of the call that a request is about; nil: none.
func (t *taps) about(r *http.Request, body []byte) *tap {
	switch r.Method {
	case http.MethodPost:
		var m rpc
		if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" || m.Params.Arguments.Call == "" {
			return nil
		}
		c := &tap{all: t, name: m.Params.Arguments.Call, id: string(m.ID), session: r.Header.Get("Mcp-Session-Id"), path: r.URL.Path}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.calls[c.name] = c
		return c
	case http.MethodGet:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.streams[streamOf(r.Header.Get("Last-Event-ID"))]
	}
	return nil
}

// of returns what has passed of a call; nil: not even its request.
func (t *taps) of(call string) *tap {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[call]
}

func (c *tap) through(process string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.fronts, process) {
		c.fronts = append(c.fronts, process)
	}
}

// facts are what a tap has.
type facts struct {
	Session, Path, LastID, Answer, RPC string
	Status                             int
	Fronts                             []string
	At                                 time.Time
}

func (c *tap) facts() (f facts) {
	if c == nil {
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return facts{c.session, c.path, c.lastID, c.answer, c.id, c.status, slices.Clone(c.fronts), c.at}
}

// began notes the answer to the request.
func (c *tap) began(status int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status == 0 {
		c.status = status
	}
}

// tapped returns the body of an answer, which is looked at while it passes.
func (c *tap) tapped(answer *http.Response) io.ReadCloser {
	if c == nil || answer.StatusCode != http.StatusOK {
		return answer.Body
	}
	r, w := io.Pipe()
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		go func() {
			var all bytes.Buffer
			_, _ = io.Copy(&all, r)
			c.message(all.Bytes())
		}()
		return &tee{answer.Body, w}
	}
	go func() {
		events := sse.NewReader(r, 1<<20)
		for {
			e, err := events.Next()
			if err != nil {
				_, _ = io.Copy(io.Discard, r) // what is not an event does not hold the response up
				return
			}
			if len(e.Data) > 0 {
				c.message(e.Data)
			}
			if e.HasID {
				c.named(e.ID)
			}
		}
	}()
	return &tee{answer.Body, w}
}

// tee copies what is read to a pipe.
type tee struct {
	io.ReadCloser

	w *io.PipeWriter
}

// Read implements io.Reader.
func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	_, _ = t.w.Write(p[:n]) // it is read to its end
	_, _ = t.w.Write(nil)   // returns when the reader wants more, so it has seen all that its client will get
	if err != nil {
		_ = t.w.CloseWithError(err)
	}
	return n, err
}

// Close implements io.Closer.
func (t *tee) Close() error {
	_ = t.w.Close()
	return t.ReadCloser.Close()
}

func (c *tap) message(data []byte) {
	var m rpc
	if json.Unmarshal(data, &m) != nil || m.Method != "" || string(m.ID) != c.id {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != "" {
		return
	}
	c.at, c.answer = time.Now(), resultPassed
	if m.Error != nil {
		c.answer = m.Error.why()
	}
}

func (c *tap) named(id string) {
	c.mu.Lock()
	c.lastID = id
	c.mu.Unlock()
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.all.streams[streamOf(id)] = c
}
