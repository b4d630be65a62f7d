//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// battle is a run with all its parts.
type battle struct {
	job     job
	out     io.Writer
	dir     string
	engine  *engine
	sprayer *sprayer
	fleet   *fleet
	crowd   *crowd
	node    *node
	log     *os.File // of package client

	mu      sync.Mutex
	strikes []strike
}

// chaos runs a job. It returns an error if something was found that must not be.
func chaos(ctx context.Context, j job, out io.Writer) (err error) {
	b := &battle{job: j, out: out}
	if b.dir = j.Keep; b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "chaos-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(b.dir)
			} else {
				fmt.Fprintln(out, "the oracle and the logs of all processes are in", b.dir)
			}
		}()
	} else if err := os.Mkdir(j.Keep, 0o750); err != nil {
		return fmt.Errorf("-keep needs a folder that is not there yet: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, j.For+10*time.Minute, errors.New("it is not over ten minutes after its time"))
	defer cancel()
	fmt.Fprintf(out, "chaos: %v, %d clients, seed %d, faults %s, persistence %s\n",
		j.For, j.Clients, j.Seed, strings.Join(j.Faults, ","), strings.Join(j.Persistence, ","))
	if err := b.open(ctx); err != nil {
		return errors.Join(err, b.close())
	}
	began := time.Now()
	err = b.fight(ctx)
	b.crowd.stop()
	took := time.Since(began)
	left, e := b.leftovers(ctx)
	err = errors.Join(err, e, b.close())
	if err != nil {
		return err
	}
	return b.settle(left, took)
}

// open starts everything.
func (b *battle) open(ctx context.Context) (err error) {
	if b.engine, err = startEngine(ctx, b.job.Persistence[0]); err != nil {
		return err
	}
	if b.sprayer, err = newSprayer(); err != nil {
		return err
	}
	// A link would have a second queue of connections that are lost when a process closes its port.
	b.fleet = &fleet{dir: b.dir, timing: b.job.Timing, engine: b.engine, sprayer: b.sprayer, direct: b.job.planned()}
	if err := b.fleet.open(ctx, 3); err != nil {
		return err
	}
	if b.job.TypeScript {
		root, err := moduleRoot()
		if err != nil {
			return err
		}
		if b.node, err = startNode(root); err != nil {
			return err
		}
	}
	if b.log, err = os.Create(filepath.Join(b.dir, "clients.log")); err != nil {
		return err
	}
	b.crowd = newCrowd(b.sprayer, b.job.Timing, b.job.Pause, b.node, slog.New(slog.NewTextHandler(b.log, nil)))
	if b.node != nil {
		b.node.progress = b.crowd.progress
	}
	b.crowd.start(ctx, b.job.Clients, b.job.Seed)
	return nil
}

// moduleRoot finds the checkout, from a folder in it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("this must run in a checkout of rejoin")
		}
	}
	return "", err
}

// close ends everything.
func (b *battle) close() (err error) {
	if b.sprayer != nil {
		b.sprayer.close()
	}
	if b.node != nil {
		err = errors.Join(err, b.node.close())
	}
	if b.fleet != nil {
		b.fleet.close()
	}
	if b.engine != nil {
		err = errors.Join(err, b.engine.close())
	}
	if b.log != nil {
		err = errors.Join(err, b.log.Close())
	}
	return err
}

// fight makes faults until the time is over: each kind alone, in an order that differs each time, and then two at once.
func (b *battle) fight(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go b.watch(ctx)
	go b.watchEngine(ctx)
	a := &arena{fleet: b.fleet, random: rand.New(rand.NewPCG(b.job.Seed, 7))} //nolint:gosec // the same for the same seed
	began := time.Now()
	end := began.Add(b.job.For)
	var alone []string
	mode, turn := b.job.Persistence[0], 0
	for time.Now().Before(end) {
		if len(alone) == 0 {
			alone = slices.Clone(b.job.Faults)
			if len(alone) > 1 {
				alone = append(alone, two)
			}
			a.random.Shuffle(len(alone), func(i, k int) { alone[i], alone[k] = alone[k], alone[i] })
		}
		name := alone[0]
		alone = alone[1:]
		kind, _ := attackNamed(name)
		if err := pause(ctx, b.quiet(a, kind.loses)); err != nil {
			return err
		}
		part := int(int64(time.Since(began)) * int64(len(b.job.Persistence)) / int64(b.job.For))
		if now := b.job.Persistence[min(part, len(b.job.Persistence)-1)]; now != mode {
			mode = now
			if err := b.engine.persist(ctx, mode); err != nil {
				return err
			}
		}
		attack := kind.make
		switch {
		case b.job.planned():
			attack = func(ctx context.Context, a *arena) ([]strike, error) {
				return a.rollOne(ctx, turn%len(a.places), turn%3 == 2)
			}
		case name == two:
			attack = b.mixed
		}
		if err := b.strike(ctx, a, attack); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		turn++
	}
	return nil
}

// two stands for two faults at once.
const two = "two at once"

// quiet is how long to wait before the next fault: until it is time, or until most of what the last one has done is over. Before a loss of data all
// clients must have called once more: until then only the engine has the sessions of an owner that was killed, and it may lose them.
func (b *battle) quiet(a *arena, loses bool) time.Duration {
	if b.job.Every > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.strikes) == 0 {
			return b.job.Every
		}
		return max(0, time.Until(b.strikes[len(b.strikes)-1].From.Add(b.job.Every)))
	}
	d := a.some(1.2, 2.2)
	if loses {
		d = max(d, 2*b.job.Pause+2*b.job.Timing.Lease)
	}
	return d
}

// strike makes a fault and notes it.
func (b *battle) strike(ctx context.Context, a *arena, attack func(context.Context, *arena) ([]strike, error)) error {
	made, err := attack(ctx, a)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.strikes = append(b.strikes, made...)
	b.mu.Unlock()
	for _, s := range made {
		fmt.Fprintf(b.out, "%s to %s: %s %s %v\n", clock(s.From), clock(s.To), s.Fault, s.Detail, s.Targets)
	}
	return nil
}

// mixed makes two faults at once, of those that take away nothing from owner and engine together.
func (b *battle) mixed(ctx context.Context, a *arena) (made []strike, err error) {
	var able []attack
	for _, name := range b.job.Faults {
		k, _ := attackNamed(name)
		if !k.loses || k.name == "restart" && b.engine.mode == always {
			able = append(able, k)
		}
	}
	if len(able) < 2 {
		return nil, nil
	}
	a.random.Shuffle(len(able), func(i, k int) { able[i], able[k] = able[k], able[i] })
	var both sync.WaitGroup
	var results [2]struct {
		made []strike
		err  error
	}
	place := a.random.IntN(len(a.places))
	for i := range results {
		one := &arena{fleet: a.fleet, mixed: true, spare: (place + i) % len(a.places)}
		one.random = rand.New(rand.NewPCG(a.random.Uint64(), 0)) //nolint:gosec // the same for the same seed
		both.Go(func() { results[i].made, results[i].err = able[i].make(ctx, one) })
	}
	both.Wait()
	return append(results[0].made, results[1].made...), errors.Join(results[0].err, results[1].err)
}

// watch notes when the machine did not let this process run.
func (b *battle) watch(ctx context.Context) {
	const tick = 50 * time.Millisecond
	for {
		before := time.Now()
		if pause(ctx, tick) != nil {
			return
		}
		if now := time.Now(); now.Sub(before) > tick+b.job.Timing.Lease/4 {
			b.stalled(stalled, before, now)
		}
	}
}

// watchEngine notes when the engine was slow though nothing was done to it: with appendfsync always, because of the disk.
func (b *battle) watchEngine(ctx context.Context) {
	for pause(ctx, 100*time.Millisecond) == nil {
		before := time.Now()
		if _, err := b.engine.do(ctx, "PING"); err == nil && time.Since(before) > b.job.Timing.Lease/8 {
			b.stalled(slowEngine, before, time.Now())
		}
	}
}

func (b *battle) stalled(fault string, from, to time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.strikes = append(b.strikes, strike{Fault: fault, From: from, To: to})
	fmt.Fprintf(b.out, "%s to %s: %s\n", clock(from), clock(to), fault)
}

// leftovers waits until the processes have nothing any more, and returns what they have then.
func (b *battle) leftovers(ctx context.Context) (left []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.job.Timing.IdleTTL+2*b.job.Timing.bound())
	defer cancel()
	for {
		h, err := b.fleet.holdings(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		if h.Sessions == 0 && h.Streams == 0 && h.Connections == 0 {
			break
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			left = append(left, fmt.Sprintf("the processes have %d sessions, %d streams, %d connections", h.Sessions, h.Streams, h.Connections))
			break
		}
	}
	keys, err := b.engine.withoutEnd(context.WithoutCancel(ctx))
	for _, k := range keys {
		left = append(left, "a key of the engine that never expires: "+k)
	}
	return left, err
}

// settle judges, and writes the account.
func (b *battle) settle(left []string, took time.Duration) error {
	oracle, err := readOracle(b.dir)
	if err != nil {
		return err
	}
	calls := b.crowd.ledger.all()
	fronts := map[string][]string{}
	for _, r := range calls {
		fronts[r.Name] = b.sprayer.taps.of(r.Name).facts().Fronts
	}
	slices.SortFunc(b.strikes, func(x, y strike) int { return x.From.Compare(y.From) })
	v := judge(&evidence{
		Timing: b.job.Timing, Calls: calls, Tools: oracle, Strikes: b.strikes, Troubles: b.sprayer.troubles(), Fronts: fronts,
		Stray: b.crowd.ledger.faults, Left: left, Planned: b.job.planned(),
	})
	text := account(&b.job, v, len(calls), took)
	fmt.Fprint(b.out, "\n", text, "\n")
	for _, f := range v.Found {
		fmt.Fprintln(b.out, "FOUND", f)
	}
	if b.job.Write != "" {
		if err := b.job.writeInto(b.job.Write, text); err != nil {
			return err
		}
	}
	for _, z := range zeros {
		if n := v.Zeros[z]; n > 0 {
			err = errors.Join(err, fmt.Errorf("%d %s", n, z))
		}
	}
	if v.Answers["raw\x00"+answered] == 0 {
		err = errors.Join(err, errors.New("no call has had a result: nothing was tried"))
	}
	return err
}
