package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// speech is what a call's tool has sent.
type speech struct {
	events, voices int
	taken          atomic.Int64 // messages that were accepted for its own stream
	returned       chan struct{}
}

// teller is an app whose tools send numbered messages in bursts, from one or several goroutines, close their streams at random moments, and send
// messages on the standalone stream.
func (rd *round) teller() rejoin.App {
	return rejoin.NewApp(rejoin.Info{}, func(ctx context.Context, r *rejoin.Request) (any, error) {
		var p struct{ Name string }
		if err := r.Bind(&p); err != nil {
			return nil, err
		}
		rd.mu.Lock()
		sp := rd.speeches[p.Name]
		rd.mu.Unlock()
		h := rejoin.HandleFromContext(ctx)
		var voices sync.WaitGroup
		for v := range sp.voices {
			voices.Go(func() { rd.speak(h, sp, p.Name, v) })
		}
		voices.Wait()
		close(sp.returned)
		return p.Name, nil
	})
}

func (rd *round) speak(h *rejoin.Handle, sp *speech, name string, v int) {
	voice := name + "/" + strconv.Itoa(v)
	random := rd.rand(voice)
	burst := random.IntN(200)
	for i := range sp.events / sp.voices {
		pad := ""
		if random.IntN(25) == 0 {
			pad = strings.Repeat("x", random.IntN(6000))
		}
		var err error
		if random.IntN(2) == 0 {
			err = h.Progress(float64(i), 0, voice)
		} else {
			err = h.Notify("notifications/message", map[string]any{"message": voice, "progress": i, "pad": pad})
		}
		if err != nil {
			rd.fault("%s: event %d was not taken: %v", voice, i, err)
			return
		}
		sp.taken.Add(1)
		switch random.IntN(200) {
		case 0, 1:
			err := h.CloseStream(time.Duration(random.IntN(300)) * time.Millisecond)
			rd.say("%s: CloseStream after %d: %v", voice, i, err)
		case 2:
			_ = h.SetPolicy(rejoin.Policy{CloseAfter: time.Duration(random.IntN(1000)+1) * time.Millisecond})
		case 3, 4, 5:
			rd.aside(h, name)
		}
		if burst--; burst < 0 {
			burst = random.IntN(300)
			kit.Elapse(time.Duration(random.IntN(300)) * time.Millisecond)
		}
	}
}

// aside sends the next message on the standalone stream.
func (rd *round) aside(h *rejoin.Handle, name string) {
	err := h.Session().Notify(context.Background(), "notifications/aside", json.RawMessage(`{"message":"`+name+`"}`))
	if err != nil {
		rd.fault("%s: an aside was not taken: %v", name, err)
		return
	}
	rd.asides.Add(1)
}

// rand returns a source that depends only on the seed and on its use.
func (rd *round) rand(what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	return rand.New(rand.NewPCG(rd.seed, h.Sum64()))
}

// moods are the faults that a store may have in a round.
type moods struct{ drags, fails bool }

// store is a memory store with these faults. They end when the round calms down.
func (rd *round) store(m moods) eventstore.Store {
	memory := eventstore.NewMemory(eventstore.MemoryConfig{})
	if m == (moods{}) {
		return memory // the server knows that it never waits, and takes shortcuts
	}
	script := func(op string, n int) error {
		if rd.calm.Load() {
			return nil
		}
		random := rd.rand(op + strconv.Itoa(n))
		if m.drags {
			switch random.IntN(40) {
			case 0:
				kit.Elapse(time.Duration(random.IntN(400)) * time.Millisecond)
			case 1, 2, 3, 4, 5, 6:
				kit.Elapse(time.Duration(random.IntN(3000)) * time.Microsecond)
			}
		}
		odds := map[string]int{"append": 900, "read": 60, "drop": 2, "dropsession": 2}
		switch {
		case !m.fails:
		case random.IntN(odds[op]) == 0:
			rd.say("store: %s %d fails", op, n)
			return kit.ErrStore
		case m.drags && random.IntN(odds[op]) == 0:
			rd.say("store: %s %d takes too long", op, n)
			kit.Elapse(6 * time.Second) // StoreTimeout is 5 s
		}
		return nil
	}
	return storetest.Faulty(liar{memory, rd, m.fails}, script)
}

// liar is a store that sometimes reports that an append has failed, although it has recorded the event.
type liar struct {
	eventstore.Store
	rd   *round
	lies bool
}

func (s liar) Log(k eventstore.Key) eventstore.Log { return liarLog{s.Store.Log(k), s} }

type liarLog struct {
	eventstore.Log
	liar
}

func (l liarLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	err := l.Log.Append(ctx, first, events, seal)
	size := len(bytes.Join(events, nil))
	if err == nil && l.lies && !l.rd.calm.Load() && l.rd.rand("lie"+strconv.Itoa(size)+"/"+strconv.Itoa(int(first))).IntN(2500) == 0 {
		l.rd.say("store: append of event %d is done, and said to have failed", first)
		return kit.ErrStore
	}
	return err
}
