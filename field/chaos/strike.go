//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// strike is a fault that was made.
type strike struct {
	Fault    string
	Detail   string
	Targets  []string  // processes; none: the engine, for all
	From, To time.Time // To: when the cause was gone, or its effect for good
	Loses    bool      // the engine may have lost data
	Part     bool      // it belongs to the one before
	Both     bool      // what the targets had and the engine got in this time may be lost in both: no promise
}

// arena is what faults are made in.
type arena struct {
	*fleet

	random *rand.Rand
	spare  int // the place that another fault at the same time may have
	mixed  bool
}

// some returns a duration between two multiples of the lease.
func (a *arena) some(low, high float64) time.Duration {
	return time.Duration((low + a.random.Float64()*(high-low)) * float64(a.timing.Lease))
}

// any returns a place. Two faults at the same time have different ones.
func (a *arena) any() *place {
	if a.mixed {
		return a.places[a.spare]
	}
	return a.places[a.random.IntN(len(a.places))]
}

// attack is a kind of fault. It returns when the fault is over and all processes run.
type attack struct {
	name   string
	owners bool // it may take owners away, so it must not come together with a loss of the engine's data
	loses  bool // it may take data from the engine, if its persistence allows that
	make   func(ctx context.Context, a *arena) ([]strike, error)
}

var attacks = []attack{
	{"kill", true, false, killOne},
	{"replace", true, false, replace},
	{"pause", true, false, stop},
	{"away", false, false, away},
	{"restart", false, true, restart},
	{"promote", false, true, promote},
	{"adopted", true, true, promoteBehindAdoption},
	{"enginecut", true, false, cutEngine},
	{"nodecut", false, false, cutNode},
	{"memory", false, false, fill},
	{"deploy", false, false, deployOne},
}

func attackNames() (all []string) {
	for _, k := range attacks {
		all = append(all, k.name)
	}
	return all
}

func attackNamed(name string) (attack, bool) {
	i := slices.IndexFunc(attacks, func(k attack) bool { return k.name == name })
	if i < 0 {
		return attack{}, false
	}
	return attacks[i], true
}

// kill: kill -9, and after a while a process on another port.
func killOne(ctx context.Context, a *arena) ([]strike, error) {
	at := a.any()
	s := strike{Fault: "kill", Targets: []string{at.p.name}, From: time.Now()}
	if err := a.kill(at); err != nil {
		return nil, err
	}
	if err := pause(ctx, a.some(0.2, 2)); err != nil {
		return nil, err
	}
	err := a.start(ctx, at, false)
	s.To = s.From.Add(a.timing.Lease) // the others know by then
	return []strike{s}, err
}

// replace: kill -9, and at once a process on the same port and with the same Self.
func replace(ctx context.Context, a *arena) ([]strike, error) {
	at := a.any()
	s := strike{Fault: "replace", Targets: []string{at.p.name}, From: time.Now()}
	if err := a.kill(at); err != nil {
		return nil, err
	}
	err := a.start(ctx, at, true)
	s.To = time.Now()
	return []strike{s}, err
}

// stop: SIGSTOP for less or more than a lease, and SIGCONT.
func stop(ctx context.Context, a *arena) ([]strike, error) {
	at := a.any()
	d := a.some(0.4, 2.2)
	s := strike{Fault: "pause", Detail: d.Round(time.Millisecond).String(), Targets: []string{at.p.name}, From: time.Now()}
	if err := at.p.signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	waited := pause(ctx, d)
	err := at.p.signal(syscall.SIGCONT)
	s.To = time.Now()
	if waited != nil {
		return nil, waited
	}
	return []strike{s}, err
}

// away: the engine does not answer for longer than a lease: it is stopped, cannot be reached, or swallows everything.
func away(ctx context.Context, a *arena) ([]strike, error) {
	d := a.some(1.2, 2.2)
	s := strike{Fault: "away", From: time.Now()}
	var begin, end func() error
	switch a.random.IntN(3) {
	case 0:
		s.Detail, begin, end = "stopped", a.engine.pause, a.engine.resume
	case 1:
		s.Detail, begin, end = "refused", func() error { return a.all(refused) }, func() error { return a.all(up) }
	default:
		s.Detail, begin, end = "silent", func() error { return a.all(silent) }, func() error { return a.all(up) }
	}
	if err := begin(); err != nil {
		return nil, err
	}
	waited := pause(ctx, d)
	err := end()
	s.To = time.Now()
	if waited != nil {
		return nil, waited
	}
	return []strike{s}, err
}

// all sets the ways of all processes to the engine.
func (a *arena) all(is state) error {
	for _, at := range a.places {
		if err := at.engine.set(is); err != nil {
			return err
		}
	}
	return nil
}

// restart: the engine crashes, and comes back with what its persistence has kept.
func restart(ctx context.Context, a *arena) ([]strike, error) {
	s := strike{Fault: "restart", Detail: a.engine.mode, Loses: a.engine.mode != always, From: time.Now()}
	if err := a.engine.kill(); err != nil {
		return nil, err
	}
	if err := pause(ctx, a.some(0, 1)); err != nil {
		return nil, err
	}
	err := a.engine.restart(ctx)
	s.To = time.Now()
	return []strike{s}, err
}

// promote: a replica that lacks the tail takes the place of the engine.
func promote(ctx context.Context, a *arena) ([]strike, error) {
	if err := a.engine.follow(ctx); err != nil {
		return nil, err
	}
	if err := a.engine.lag(); err != nil {
		return nil, err
	}
	if err := pause(ctx, a.some(0.2, 0.8)); err != nil {
		return nil, err
	}
	s := strike{Fault: "promote", Loses: true, From: time.Now()}
	if err := a.engine.promote(ctx); err != nil {
		return nil, err
	}
	a.lead(a.engine.addr())
	s.To = time.Now()
	return []strike{s}, nil
}

// promoteBehindAdoption: a process is killed, and its sessions are adopted. Then a replica that lacks these adoptions takes the place of the
// engine, while one of the adopters does not reach it: another process adopts the same sessions under the same epoch. Then the adopter is back.
func promoteBehindAdoption(ctx context.Context, a *arena) ([]strike, error) {
	dead, late := a.random.IntN(len(a.places)), 1+a.random.IntN(len(a.places)-1)
	at, adopter := a.places[dead], a.places[(dead+late)%len(a.places)]
	if err := a.engine.follow(ctx); err != nil {
		return nil, err
	}
	if err := a.engine.lag(); err != nil {
		return nil, err
	}
	lagged := time.Now()
	killed := strike{Fault: "adopted", Targets: []string{at.p.name}, From: time.Now(), Both: true}
	if err := a.kill(at); err != nil {
		return nil, err
	}
	if err := pause(ctx, a.some(2, 2.5)); err != nil {
		return nil, err
	}
	moved := strike{Part: true, Fault: "adopted", Detail: "the engine went back", From: time.Now(), Loses: true}
	cut := strike{Part: true, Fault: "adopted", Detail: "the adopter is cut off", Targets: []string{adopter.p.name}, From: time.Now(), Both: true}
	if err := adopter.engine.set(silent); err != nil {
		return nil, err
	}
	if err := a.engine.promote(ctx); err != nil {
		return nil, err
	}
	a.lead(a.engine.addr())
	moved.To = time.Now()
	if err := pause(ctx, a.some(2, 2.5)); err != nil {
		return nil, err
	}
	if err := adopter.engine.set(up); err != nil {
		return nil, err
	}
	cut.To, cut.From, killed.From = time.Now(), lagged, lagged
	killed.To = cut.To
	err := a.start(ctx, at, false)
	return []strike{killed, moved, cut}, err
}

// cutEngine: one process does not reach the engine, in one of several ways.
func cutEngine(ctx context.Context, a *arena) ([]strike, error) {
	at := a.any()
	return a.cut(ctx, "enginecut", at.p.name, at.engine)
}

// cutNode: the others do not reach one process, in one of several ways.
func cutNode(ctx context.Context, a *arena) ([]strike, error) {
	at := a.any()
	return a.cut(ctx, "nodecut", at.p.name, at.self)
}

var states = map[state]string{refused: "refused", silent: "half open", deaf: "no answers", mute: "no requests", slow: "slow"}

func (a *arena) cut(ctx context.Context, fault, process string, l *link) ([]strike, error) {
	is := []state{refused, silent, deaf, mute, slow}[a.random.IntN(5)]
	s := strike{Fault: fault, Detail: states[is], Targets: []string{process}, From: time.Now()}
	if err := l.set(is); err != nil {
		return nil, err
	}
	waited := pause(ctx, a.some(0.5, 2.2))
	err := l.set(up)
	s.To = time.Now()
	if waited != nil {
		return nil, waited
	}
	return []strike{s}, err
}

// fill: the engine has no memory left.
func fill(ctx context.Context, a *arena) ([]strike, error) {
	s := strike{Fault: "memory", From: time.Now()}
	if err := a.engine.fill(ctx); err != nil {
		return nil, err
	}
	waited := pause(ctx, a.some(0.5, 2))
	err := a.engine.empty(ctx)
	s.To = time.Now()
	if waited != nil {
		return nil, waited
	}
	return []strike{s}, err
}

// deployOne: SIGTERM to a process, and another one in its place.
func deployOne(ctx context.Context, a *arena) ([]strike, error) {
	i, same := slices.Index(a.places, a.any()), a.random.IntN(3) == 0
	return a.rollOne(ctx, i, same)
}

func (a *arena) rollOne(ctx context.Context, i int, same bool) ([]strike, error) {
	s := strike{Fault: "deploy", Detail: "another port", Targets: []string{a.places[i].p.name}, From: time.Now()}
	if same {
		s.Detail = "same port"
	}
	if err := a.deploy(ctx, i, same); err != nil {
		return nil, fmt.Errorf("deploy: %w", err)
	}
	s.To = time.Now()
	return []strike{s}, nil
}
