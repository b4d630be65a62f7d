package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// reporter says how it goes.
type reporter struct {
	job    job
	out    io.Writer
	begun  time.Time
	calmed time.Time // when the clients had ended
	base   sample    // of the servers, before anybody came
	last   sample    // in the end
	left   gauges
	paced  usage
	told   usage
	tally  map[string]int64
	peaks  map[string]float64
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// warm lets one client of each kind come and go, so that what libraries make once is made, and takes the base line.
func (r *reporter) warm(ctx context.Context, house, crowd *child, sites []site) error {
	j := r.job
	j.Clients, j.For = len(sites), time.Second
	j.Longest = min(j.Longest, time.Second)
	a, err := crowd.ask(question{Do: "warm", Job: j, Sites: sites})
	if err != nil {
		return err
	}
	r.note(a)
	r.calmed = time.Time{}
	for same := 0; same < 5; { // connections end when their server notices
		a, err := house.ask(question{Do: "collect"})
		if err != nil {
			return err
		}
		if same++; !a.Gauges.zero() || a.Sample.Goroutines != r.base.Goroutines {
			same = 0
		}
		if r.base = a.Sample; !pause(ctx, 200) {
			return context.Cause(ctx)
		}
	}
	fmt.Fprintf(r.out, "base line: %d goroutines, heap %s, RSS %s\n", r.base.Goroutines, mib(r.base.Heap), mib(r.base.RSS))
	return nil
}

// note takes what the clients report.
func (r *reporter) note(a answer) {
	r.tally = a.Tally
	for _, f := range a.Faults {
		fmt.Fprintf(r.out, "FAULT: %s\n", f)
	}
	if a.Active == 0 && r.calmed.IsZero() {
		r.calmed = time.Now()
	}
}

// usage is what the processes have used, and when.
type usage struct {
	at    time.Time
	cpu   [2]time.Duration
	cpus  [2]float64
	house answer
	crowd answer
}

// since asks both processes, and says how many CPUs they have used since the last time.
func (u *usage) since(house, crowd *child) (err error) {
	if u.house, err = house.ask(question{Do: "sample"}); err != nil {
		return err
	}
	if u.crowd, err = crowd.ask(question{Do: "sample"}); err != nil {
		return err
	}
	now := time.Now()
	for i, cpu := range [2]time.Duration{u.house.Sample.CPU, u.crowd.Sample.CPU} {
		u.cpus[i] = (cpu - u.cpu[i]).Seconds() / now.Sub(u.at).Seconds()
		u.cpu[i] = cpu
	}
	u.at = now
	return nil
}

// busy is how many CPUs both have used since it was last called.
func (r *reporter) busy(house, crowd *child) (float64, error) {
	if err := r.paced.since(house, crowd); err != nil {
		return 0, err
	}
	r.note(r.paced.crowd)
	r.peak("goroutines of the servers", float64(r.paced.house.Sample.Goroutines))
	return r.paced.cpus[0] + r.paced.cpus[1], nil
}

func (r *reporter) peak(name string, v float64) { r.peaks[name] = max(r.peaks[name], v) }

// say says how it goes.
func (r *reporter) say(house, crowd *child) error {
	if err := r.told.since(house, crowd); err != nil {
		return err
	}
	h, c, cpus := r.told.house, r.told.crowd, r.told.cpus
	r.note(c)
	g, t := h.Gauges, c.Tally
	r.peak("heap of the servers, MiB", float64(h.Sample.Heap)/(1<<20))
	r.peak("RSS of the servers, MiB", float64(h.Sample.RSS)/(1<<20))
	r.peak("RSS of the clients, MiB", float64(c.Sample.RSS)/(1<<20))
	r.peak("goroutines of the servers", float64(h.Sample.Goroutines))
	r.peak("CPUs, servers", cpus[0])
	r.peak("CPUs, clients", cpus[1])
	r.peak("sessions", float64(g.Sessions))
	r.peak("streams", float64(g.Streams))
	r.peak("connections", float64(g.Connections))
	r.peak("parked", float64(g.Parked))
	r.peak("stored, MiB", float64(g.StoredBytes)/(1<<20))
	fmt.Fprintf(r.out, "%6.0fs calls %d completed %d, events %d+%d aside, let go %d, resumes %d, takeovers %d (server %d), cuts %d, lost: %s; faults %d;"+
		" sessions %d streams %d connections %d parked %d stored %s; heap %s goroutines %d RSS %s; CPUs %.2f+%.2f\n",
		time.Since(r.begun).Seconds(), t["calls"], t["completed"], t["events"], t["events aside"], t["let go"], t["resumes"], t["takeovers"],
		g.TakenOver, t["cuts"], losses(t), t["faults"], g.Sessions, g.Streams, g.Connections, g.Parked, mib(g.StoredBytes),
		mib(h.Sample.Heap), h.Sample.Goroutines, mib(h.Sample.RSS), cpus[0], cpus[1])
	return nil
}

// losses are the calls without a result, by reason.
func losses(t map[string]int64) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(t)) {
		if reason, ok := strings.CutPrefix(k, "lost: "); ok {
			all = append(all, fmt.Sprintf("%s %d", reason, t[k]))
		}
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, ", ")
}

// summary is all that is to be said in the end.
func (r *reporter) summary() {
	fmt.Fprintf(r.out, "\n%v, %d clients, seed %d.\n\n| counted | |\n|---|---:|\n", r.job.For, r.job.Clients, r.job.Seed)
	for _, k := range slices.Sorted(maps.Keys(r.tally)) {
		fmt.Fprintf(r.out, "| %s | %d |\n", k, r.tally[k])
	}
	fmt.Fprintf(r.out, "\n| peak | |\n|---|---:|\n")
	for _, k := range slices.Sorted(maps.Keys(r.peaks)) {
		fmt.Fprintf(r.out, "| %s | %.4g |\n", k, r.peaks[k])
	}
	fmt.Fprintf(r.out, "\n| servers | before | after |\n|---|---:|---:|\n| goroutines | %d | %d |\n| heap | %s | %s |\n| RSS | %s | %s |\n",
		r.base.Goroutines, r.last.Goroutines, mib(r.base.Heap), mib(r.last.Heap), mib(r.base.RSS), mib(r.last.RSS))
	fmt.Fprintf(r.out, "\nServers' counters: %+v\n\n", r.left)
}
