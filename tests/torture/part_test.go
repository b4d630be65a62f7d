package torture_test

import (
	"net/http"
	"slices"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
)

// part keeps other processes from reaching one for a while, or one from reaching the others, or both. All reach the engine.
func (tt *torture) part(p *machine, how int, lasts time.Duration) {
	tt.mu.Lock()
	if tt.calm || p.dead || p.closed || p.frozen != nil {
		tt.mu.Unlock()
		return
	}
	tt.parting++
	others := tt.othersOf(p)
	tt.mu.Unlock()
	what := []string{"refused", "unreachable", "cut off from others", "alone", "reset"}[how]
	tt.say("%s: %s for %v", p.name, what, lasts)
	tt.tally.did("network: " + what)
	host := p.host()
	switch how {
	case 0:
		tt.net.Refuse(host, true)
		tt.net.Reset(host)
	case 4:
		tt.net.Reset(host)
		lasts = 0
	default:
		tt.cutNetwork(host, others, how != 2, how != 1, true)
	}
	tt.last(p, lasts)
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if how == 0 && !p.dead && !p.closed {
		tt.net.Refuse(host, false)
	}
	tt.cutNetwork(host, others, true, true, false)
	tt.say("%s: %s no more", p.name, what)
	tt.parting--
	tt.parted = time.Now()
}

// othersOf returns the hosts of all processes but one. The mu is held.
func (tt *torture) othersOf(p *machine) (hosts []string) {
	for _, q := range append(slices.Clone(tt.slots), tt.graves...) {
		if q.self != p.self && !slices.Contains(hosts, q.host()) {
			hosts = append(hosts, q.host())
		}
	}
	return hosts
}

func (tt *torture) cutNetwork(host string, others []string, to, from, yes bool) {
	for _, other := range others {
		if to {
			tt.net.Cut(other, host, yes)
		}
		if from {
			tt.net.Cut(host, other, yes)
		}
	}
}

// isParted reports whether the network explains that a process has not reached another one.
func (tt *torture) isParted() bool {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return tt.parting > 0 || !tt.parted.IsZero() && time.Since(tt.parted) < 3*lease
}

// stall keeps a process from making progress for a while: nothing travels between it and the engine, the others, and its clients. Then all is there at
// once.
func (tt *torture) stall(p *machine, lasts time.Duration) {
	tt.mu.Lock()
	if tt.calm || p.dead || p.closed || p.away {
		tt.mu.Unlock()
		return
	}
	p.away = true
	p.frozen = make(chan struct{})
	tt.parting++
	others := tt.othersOf(p)
	tt.mu.Unlock()
	tt.say("%s: makes no progress for %v", p.name, lasts)
	tt.tally.did(map[bool]string{true: "stalled for long", false: "stalled"}[lasts > lease])
	p.link.SetLink(clustertest.Silent)
	tt.cutNetwork(p.host(), others, true, true, true)
	tt.hurt(p)
	tt.last(p, lasts)
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.say("%s: goes on", p.name)
	p.away = false
	close(p.frozen)
	p.frozen = nil
	tt.cutNetwork(p.host(), others, true, true, false)
	if !p.dead {
		p.link.SetLink(clustertest.Up)
	}
	tt.parting--
	tt.parted = time.Now()
}

// awake waits until a process makes progress.
func (tt *torture) awake(p *machine) {
	for {
		tt.mu.Lock()
		until := p.frozen
		tt.mu.Unlock()
		if until == nil {
			return
		}
		<-until
	}
}

// frozen is a response of a process that may make no progress.
type frozen struct {
	*wire
	tt *torture
}

func (w frozen) WriteHeader(status int) {
	w.tt.awake(w.p)
	w.wire.WriteHeader(status)
}

func (w frozen) Write(p []byte) (int, error) {
	w.tt.awake(w.p)
	return w.wire.Write(p)
}

var _ http.Flusher = frozen{}
