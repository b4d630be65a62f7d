package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

func members(raw []byte) (m map[string]any, ok bool) { return m, json.Unmarshal(raw, &m) == nil }

// answerAll answers questions, each in one of the ways in which users do, or not at all.
func (t *task) answerAll(ctx context.Context, work *group, asks map[string]inputRequest) {
	for key, ask := range asks {
		r := t.fork()
		work.Go(func() { t.answer(ctx, r, key, ask) })
	}
}

// answer answers one question. Of a round, other questions may be answered much later.
func (t *task) answer(ctx context.Context, r *rand.Rand, key string, ask inputRequest) {
	m, begun, late := t.c.m, time.Now(), t.c.m.late.Load()
	m.ledger.count("questions in tasks")
	survey := t.c.survey.Rounds > 0
	question, until, _ := strings.Cut(ask.Params.Message, " ")
	if ask.Method != "elicitation/create" || question == "" || !survey && question != t.c.name || survey && !strings.HasPrefix(question, t.c.name+":") {
		t.faultf(nil, "the question %s is not of its call: %+v", key, ask)
		return
	}
	if !survey {
		question = key // a tool may ask the same several times
	}
	switch way := r.IntN(10); {
	case m.isStopping():
	case way == 0:
		if survey { // the task would wait for ever
			pause(ctx, 1000+r.IntN(3000))
			t.cancel(ctx, r)
		}
		return
	case way == 1:
		pause(ctx, int(patience.Milliseconds())+1000) // too late for a tool that waits
	default:
		pause(ctx, r.IntN(1500))
	}
	for taken := false; !taken && ctx.Err() == nil && !t.over(); pause(ctx, r.IntN(300)) {
		taken = t.update(ctx, r, key, question)
	}
	now := time.Now()
	// As with answers of sessions: the question has a time of the wall clock, which may be changed, so the monotonic clock must agree.
	if at, err := time.Parse(time.RFC3339Nano, until); err == nil && at.Sub(now) > margin && at.Sub(now) <= patience && now.Sub(begun) < patience-margin &&
		m.late.Load() == late && t.c.answers.isKnown(question) {
		t.c.answers.took(fmt.Sprintf("%s at %s, until %s", key, now.Format(time.RFC3339Nano), until))
	}
	if r.IntN(4) == 0 { // what was answered is not asked any more
		t.update(ctx, r, key, question)
	}
}

// update sends an answer, perhaps with others that nobody has asked for. It reports whether it was acknowledged.
func (t *task) update(ctx context.Context, r *rand.Rand, key, question string) bool {
	t.c.m.ledger.count("task updates")
	answers := map[string]any{key: t.c.answers.give(r, question)}
	if r.IntN(4) == 0 {
		answers["r9.nobody"] = map[string]any{"action": "accept"}
	}
	a, ok := t.ask(ctx, t.request("tasks/update", map[string]any{"inputResponses": answers}), t.sight())
	if ok {
		t.acknowledged(&a)
		t.c.answers.acknowledged(question)
	}
	return ok
}
