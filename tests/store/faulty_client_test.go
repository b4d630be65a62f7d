package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// asker is a client of one stream of a server whose store fails, without a network. It polls whenever its connection has ended, as good clients do, and
// compares what comes with what the tools have sent. It records faults, because it runs in a goroutine of its own.
type asker struct {
	t       *testing.T
	s       *rejoin.Server
	session string
	name    string        // the name of the tool; "": it reads the standalone stream
	cutAt   time.Duration // when its first connection is cut; 0: never

	mu     sync.Mutex
	wrong  []string
	cursor string
	at     int // how many messages come up to the cursor
	heard  int // how many messages have come on all connections
	retry  time.Duration
	asked  bool
	quits  bool   // it has cancelled its request
	over   string // how it ended: result, error, nothing (204), unknown (404)
	ended  time.Duration
}

func (k *asker) fault(format string, args ...any) {
	k.wrong = append(k.wrong, k.name+": "+fmt.Sprintf(format, args...))
}

// run sends the request, polls, and returns when nothing is left to be polled.
func (k *asker) run() {
	began := time.Now()
	r := kit.Request(k.t, http.MethodGet, "", "Mcp-Session-Id", k.session)
	if k.name != "" {
		r = kit.InSession(k.t, k.session, `{"jsonrpc":"2.0","id":"`+k.name+`","method":"tools/call","params":{"name":"`+k.name+`","_meta":{"progressToken":1}}}`)
	}
	for polls := 0; k.over == ""; polls++ {
		if polls > 50 {
			k.fault("it came back 50 times")
			break
		}
		ctx, cancel := context.WithCancel(context.Background())
		w := &ear{Response: kit.Response{Head: http.Header{}}, k: k}
		lost := k.cutAt > 0 && polls == 0
		if lost {
			time.AfterFunc(k.cutAt, cancel)
		}
		k.s.Serve(w, r.WithContext(ctx))
		cancel()
		k.closed(w, lost && time.Since(began) == k.cutAt)
		if k.over != "" {
			break
		}
		kit.Elapse(k.retry)
		r = kit.Request(k.t, http.MethodGet, "", "Mcp-Session-Id", k.session, "Last-Event-ID", k.cursor)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = time.Since(began)
}

// closed handles the end of a connection.
func (k *asker) closed(w *ear, lost bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	body := w.Body.String()
	stream := w.Head.Get("Content-Type") == "text/event-stream"
	switch {
	case w.Status == http.StatusNoContent:
		k.over = "nothing"
	case w.Status == http.StatusNotFound:
		k.over = "unknown"
	case w.Status != http.StatusOK:
		k.fault("%d %s", w.Status, body)
		k.over = "refused"
	case !stream:
		k.message(body, "")
	case !strings.HasSuffix(body, "\n\n") || len(w.rest) > 0:
		k.fault("torn: %q", w.rest)
	case k.over != "":
	case k.quits: // there is nothing to fetch
		k.over = "cancelled"
	case k.cursor == "":
		k.fault("its connection ended, and it has nothing to come back with: %q", body)
		k.over = "lost"
	case lost: // messages without an id come again
		k.heard = k.at
	case k.name != "" && k.heard != k.at:
		k.fault("it was sent away with %d messages that it has no id for", k.heard-k.at)
	}
}

// event handles one event of a stream.
func (k *asker) event(block string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var id, data string
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "id: "):
			id = line[4:]
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
		case strings.HasPrefix(line, "retry: "):
			ms, _ := strconv.Atoi(line[7:])
			k.retry = time.Duration(ms) * time.Millisecond
		}
	}
	if data != "" {
		k.message(data, id)
	}
	if id != "" {
		k.cursor, k.at = id, k.heard
	}
}

func (k *asker) message(data, id string) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Progress int }
		Error  *struct{ Data struct{ Reason string } }
	}
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		k.fault("%v: %s", err, data)
	}
	if k.over != "" {
		k.fault("after the end: %s", data)
	}
	switch {
	case m.Error != nil:
		k.over = "error"
		if m.Error.Data.Reason != "store" {
			k.over = "error " + m.Error.Data.Reason
		}
		return
	case m.Method == "":
		k.over = "result"
		return
	case m.Method == "roots/list":
		if k.asked {
			return // it may come again
		}
		k.asked = true
		go k.says(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
		return
	case m.Method == "notifications/cancelled": // a question was withdrawn
		return
	}
	if m.Params.Progress != k.heard {
		k.fault("number %d has come, and should be %d (id %q)", m.Params.Progress, k.heard, id)
	}
	k.heard = m.Params.Progress + 1
}

// says posts a message that is accepted.
func (k *asker) says(body string) {
	w := &kit.Response{Head: http.Header{}}
	began := time.Now()
	k.s.Serve(w, kit.InSession(k.t, k.session, body))
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.Status != http.StatusAccepted || time.Since(began) != 0 {
		k.fault("%s: %d after %v", body, w.Status, time.Since(began))
	}
}

// ear is a response that handles events when they are flushed.
type ear struct {
	kit.Response
	k    *asker
	rest string
}

func (w *ear) Flush() {
	w.rest += w.Body.String()[w.Flushed:]
	w.Response.Flush()
	if w.Head.Get("Content-Type") != "text/event-stream" {
		w.rest = ""
	}
	for {
		block, rest, whole := strings.Cut(w.rest, "\n\n")
		if !whole {
			return
		}
		w.rest = rest
		w.k.event(block)
	}
}

// steps is an app with tools that do what their names say.
func (w *faultyWorld) steps() rejoin.App {
	return rejoin.NewApp(rejoin.Info{}, func(ctx context.Context, r *rejoin.Request) (any, error) {
		h, name := rejoin.HandleFromContext(ctx), r.Name()
		told := 0
		tell := func() {
			if err := h.Progress(float64(told), 0, ""); err != nil && ctx.Err() == nil {
				w.fault("%s: number %d was not taken: %v", name, told, err)
			}
			told++
		}
		aside := func() {
			params := json.RawMessage(`{"progress":` + strconv.FormatInt(w.asides.Add(1)-1, 10) + `}`)
			if err := h.Session().Notify(context.Background(), "notifications/aside", params); err != nil {
				w.fault("an aside was not taken: %v", err)
			}
		}
		switch name {
		case "polled": // closes its stream, asks, and goes on without the answer
			tell()
			kit.Elapse(50 * time.Millisecond)
			tell()
			limited, cancel := context.WithTimeout(ctx, 20*time.Second)
			if err := h.Ask(limited, "roots/list", nil, nil); err != nil {
				w.unasked.Add(1)
			}
			cancel()
			_ = h.CloseStream(200 * time.Millisecond)
			tell()
			kit.Elapse(100 * time.Millisecond)
			tell()
			kit.Elapse(500 * time.Millisecond)
			tell()
		case "parked": // has returned when its client polls
			_ = h.CloseStream(0)
			aside()
			tell()
			_ = h.CloseStandaloneStream(100 * time.Millisecond)
			tell()
			aside()
			tell()
		case "cut", "cancelled", "steady":
			for range 4 {
				tell()
				kit.Elapse(400 * time.Millisecond)
			}
		}
		return name, ctx.Err()
	})
}

// opened opens a session and returns its id.
func (w *faultyWorld) opened() string {
	id, refused := kit.Open(w.t, w.s)
	require.Empty(w.t, refused)
	return id
}
