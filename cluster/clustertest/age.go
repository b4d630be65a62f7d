package clustertest

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
)

// slack is how much more or less than the exam an engine may measure.
const slack = 10 * time.Millisecond

// age asks for the age of the engine. want is what Find says of the session.
func (e *exam) age(c client, session string, want error, by cluster.Process) time.Duration {
	e.Helper()
	f, err := c.Find(e.ctx, session, by)
	e.wantError(err, want, "find session %q", session)
	if f.Age < 0 {
		e.Fatalf("the age is %v", f.Age)
	}
	return f.Age
}

// untilAge waits until the engine is as old as that. This is about the clock, so it waits for that.
func (e *exam) untilAge(c client, want time.Duration) {
	e.Helper()
	for began := time.Now(); e.age(c, "nothing", cluster.ErrUnknown, process("nobody", "x")) < want; <-time.After(time.Millisecond) {
		if time.Since(began) > want+5*time.Second {
			e.Fatalf("after %v the age is still less than %v", time.Since(began), want)
		}
	}
}

func age(e *exam) {
	for round := range 3 {
		e.begin("s")
		ended := e.begin("ended")
		e.nilError(ended.End(e.ctx, "ended", ended.fence), "end")
		m := e.join(e.one, process("a", fmt.Sprint("a", round)))
		e.untilAge(e.one, 4*slack)
		for _, by := range []cluster.Process{m.Process, process("nobody", "x")} {
			for session, want := range map[string]error{"s": nil, "ended": cluster.ErrEnded, "unknown": cluster.ErrUnknown} {
				before := e.age(e.one, session, want, by)
				other := e.age(e.two, session, want, by)
				after := e.age(e.one, session, want, by)
				if before < 3*slack {
					e.Fatalf("find session %q: the age is %v, and it was %v before", session, before, 4*slack)
				}
				if other < before-slack || other > after+slack {
					e.Fatalf("one process is told the ages %v and %v, and another %v between them", before, after, other)
				}
			}
		}
		began := time.Now()
		e.forget()
		found := e.age(e.one, "s", cluster.ErrUnknown, m.Process)
		if longest := time.Since(began) + slack; found > longest {
			e.Fatalf("the engine has forgotten everything less than %v ago, and its age is %v", longest, found)
		}
	}
}

// findBesideLoss lets the engine forget while a process looks for a session. It must see the loss when it does not find the session.
func findBesideLoss(e *exam) {
	for round := range 10 {
		m := e.join(e.one, process("a", fmt.Sprint("a", round)))
		m.Count = 1
		e.renew(e.one, m)
		o := e.begin("s")
		e.untilAge(e.one, 3*slack)
		began := time.Now()
		errs := at(
			func() error { e.forget(); return nil },
			func() error {
				for e.ctx.Err() == nil {
					f, err := o.Find(e.ctx, o.session, m.Process)
					longest := time.Since(began) + slack
					switch {
					case !errors.Is(err, cluster.ErrUnknown): // it is there, or the engine does not answer
						runtime.Gosched()
					case f.Age > longest:
						return fmt.Errorf("a session was lost less than %v ago, and the age is %v", longest, f.Age)
					case f.Count != 0:
						return fmt.Errorf("a session was lost, and the count is %d", f.Count)
					default:
						return nil
					}
				}
				return e.ctx.Err()
			},
		)
		e.nilError(errs[1], "find beside a loss")
	}
}

// ageGrows checks that nothing but a loss makes an engine young.
func ageGrows(e *exam) {
	nobody := process("nobody", "x")
	opened := e.age(e.one, "nothing", cluster.ErrUnknown, nobody)
	began := time.Now()
	for _, wait := range []time.Duration{time.Second, 59 * time.Second, time.Hour, 10 * ttl, 100 * 24 * time.Hour} {
		e.begin(wait.String())
		e.join(e.one, process("a", wait.String()))
		time.Sleep(wait)
		want := opened + time.Since(began)
		for _, c := range []client{e.one, e.two} {
			if got := e.age(c, "nothing", cluster.ErrUnknown, nobody); got < want-slack || got > want+slack {
				e.Fatalf("the age is %v, want %v", got, want)
			}
		}
	}
}
