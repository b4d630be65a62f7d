package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

const subscriptionID = "io.modelcontextprotocol/subscriptionId"

// listen listens to the task until it has ended or ctx ends, over connections that are cut.
func (t *task) listen(ctx context.Context, r *rand.Rand) {
	var work group
	defer work.Wait()
	for ctx.Err() == nil && !t.over() && !t.c.m.gone.Load() {
		t.listenOnce(ctx, r, &work)
		pause(ctx, r.IntN(1000))
	}
}

// listenOnce listens over one connection. It asks for a task of another client too, which must be left out.
func (t *task) listenOnce(ctx context.Context, r *rand.Rand, work *group) {
	m := t.c.m
	m.ledger.count("task listens")
	ids := []string{t.id, "nobody." + strconv.FormatUint(r.Uint64(), 36)}
	if other := m.strangers.peek(m.site); other.user != "" && other.user != m.user {
		ids = append(ids, other.id)
	}
	filters := map[string]any{"taskIds": ids}
	if r.IntN(3) == 0 {
		filters["toolsListChanged"] = true
	}
	q := m.request("subscriptions/listen", "", map[string]any{"notifications": filters}, true)
	w, err := dial(ctx, m.site.Addr)
	if err != nil {
		return // ctx has ended, or a fault will show elsewhere
	}
	defer context.AfterFunc(ctx, func() { w.disconnect(false) })()
	defer w.disconnect(r.IntN(2) == 0)
	defer m.drop(w)
	m.planEnd(r, w, 2*about(r))
	at := t.sight()
	resp, err := w.send(http.MethodPost, m.site, q.head, q.body)
	if err != nil || !resp.streams() {
		if !w.cut.Load() && !m.gone.Load() && ctx.Err() == nil {
			t.faultf(w, "listen: %v, not a stream", err)
		}
		return
	}
	at.listens = true
	events := sse.NewReader(resp.body, 1<<20)
	for n := 0; ; n++ {
		ev, err := events.Next()
		switch {
		case err != nil:
			if !w.cut.Load() && !errors.Is(err, errCut) && !m.gone.Load() && ctx.Err() == nil {
				t.faultf(w, "a listen broke after %d events: %v", n, err)
			}
			return
		case n == 0:
			if !t.acknowledgedListen(w, ev.Data, q.id) {
				return
			}
			t.contacted(at.sent)
			continue
		}
		state, ok := t.notified(w, ev.Data, q.id)
		if !ok {
			return
		}
		m.ledger.count("task notifications")
		t.contacted(at.sent)
		t.answerAll(ctx, work, t.see(w, state, at))
		at = sight{sent: at.sent, ended: t.seenEnd(state), progress: at.progress, listens: true} // what comes next is newer
		if at.ended {
			return
		}
	}
}

// seenEnd reports whether a state is one of a task that has ended.
func (t *task) seenEnd(state []byte) bool {
	var s taskState
	_ = json.Unmarshal(state, &s) // it was decoded before
	return s.final()
}

// acknowledgedListen checks the acknowledgement of a listen. It reports whether the task will be told of.
func (t *task) acknowledgedListen(w *clientConn, data []byte, id int64) bool {
	var ack struct {
		Method string `json:"method"`
		Params struct {
			Meta          map[string]json.RawMessage `json:"_meta"`
			Notifications struct {
				IDs []string `json:"taskIds"`
			} `json:"notifications"`
		} `json:"params"`
	}
	err := json.Unmarshal(data, &ack)
	ids := ack.Params.Notifications.IDs
	switch {
	case err != nil || ack.Method != "notifications/subscriptions/acknowledged" || string(ack.Params.Meta[subscriptionID]) != strconv.FormatInt(id, 10):
		t.faultf(w, "not the acknowledgement of a listen: %s", data)
		return false
	case len(ids) == 0:
		t.mu.Lock()
		since := time.Since(t.alive)
		t.mu.Unlock()
		if since < t.c.m.job.Retain {
			t.faultf(w, "a listen does not know it %v after it ran: %s", since, data)
		}
		return false
	case len(ids) != 1 || ids[0] != t.id:
		t.faultf(w, "a listen tells of what is not its client's: %s", data)
		return false
	}
	return true
}

// notified returns the state in a notification of a listen.
func (t *task) notified(w *clientConn, data []byte, id int64) (state []byte, ok bool) {
	var note struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	err := json.Unmarshal(data, &note)
	if err == nil {
		err = json.Unmarshal(note.Params, &params)
	}
	if err != nil || note.Method != "notifications/tasks" || string(params.Meta[subscriptionID]) != strconv.FormatInt(id, 10) {
		t.faultf(w, "what is this? %s", data)
		return nil, false
	}
	return note.Params, true
}
