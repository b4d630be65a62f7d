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

// reporter writes what happens, and what the processes use.
type reporter struct {
	job     job
	out     io.Writer
	begun   time.Time
	endedAt time.Time // when the last client ended
	base    sample    // of the servers, before the load
	last    sample    // of the servers, at the end
	left    gauges
	paced   usage
	told    usage
	tally   map[string]int64
	peaks   map[string]float64
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// warm runs one client of each kind, so that libraries allocate what they allocate once, and samples the servers as the base.
func (r *reporter) warm(ctx context.Context, servers, clients *child, sites []site) error {
	j := r.job
	j.Clients, j.For = len(sites), time.Second
	j.Longest = min(j.Longest, time.Second)
	a, err := clients.ask(question{Do: "warm", Job: j, Sites: sites})
	if err != nil {
		return err
	}
	r.note(a)
	r.endedAt = time.Time{}
	for same := 0; same < 5; { // until the servers have noticed that connections have ended
		a, err := servers.ask(question{Do: "collect"})
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

// note records the counts of the clients, and writes their new faults.
func (r *reporter) note(a answer) {
	r.tally = a.Tally
	for _, f := range a.Faults {
		fmt.Fprintf(r.out, "FAULT: %s\n", f)
	}
	if a.Active == 0 && r.endedAt.IsZero() {
		r.endedAt = time.Now()
	}
}

// usage is what the two processes have used since the last call of since.
type usage struct {
	at      time.Time
	cpu     [2]time.Duration
	cpus    [2]float64
	servers answer
	clients answer
}

// since samples both processes, and computes how many CPUs each has used since the last time.
func (u *usage) since(servers, clients *child) (err error) {
	if u.servers, err = servers.ask(question{Do: "sample"}); err != nil {
		return err
	}
	if u.clients, err = clients.ask(question{Do: "sample"}); err != nil {
		return err
	}
	now := time.Now()
	for i, cpu := range [2]time.Duration{u.servers.Sample.CPU, u.clients.Sample.CPU} {
		u.cpus[i] = (cpu - u.cpu[i]).Seconds() / now.Sub(u.at).Seconds()
		u.cpu[i] = cpu
	}
	u.at = now
	return nil
}

// busy returns how many CPUs both processes have used since its last call.
func (r *reporter) busy(servers, clients *child) (float64, error) {
	if err := r.paced.since(servers, clients); err != nil {
		return 0, err
	}
	r.note(r.paced.clients)
	r.peak("goroutines of the servers", float64(r.paced.servers.Sample.Goroutines))
	return r.paced.cpus[0] + r.paced.cpus[1], nil
}

func (r *reporter) peak(name string, v float64) { r.peaks[name] = max(r.peaks[name], v) }

// say writes a line about the state of the soak.
func (r *reporter) say(servers, clients *child) error {
	if err := r.told.since(servers, clients); err != nil {
		return err
	}
	h, c, cpus := r.told.servers, r.told.clients, r.told.cpus
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
	r.peak("tasks", float64(g.Tasks))
	r.peak("tasks that run", float64(g.TasksRunning))
	fmt.Fprintf(r.out, "%6.0fs calls %d completed %d, modern calls %d, tasks %d (server %d kept, %d run) completed %d, task polls %d,"+
		" events %d+%d aside, let go %d, resumes %d, takeovers %d (server %d), cuts %d, lost: %s; faults %d;"+
		" sessions %d streams %d connections %d parked %d stored %s; heap %s goroutines %d RSS %s; CPUs %.2f+%.2f\n",
		time.Since(r.begun).Seconds(), t["calls"], t["completed"],
		t["modern calls"], t["tasks"], g.Tasks, g.TasksRunning, t["tasks: completed"], t["task polls"],
		t["events"], t["events aside"], t["let go"], t["resumes"], t["takeovers"],
		g.TakenOver, t["cuts"], losses(t), t["faults"], g.Sessions, g.Streams, g.Connections, g.Parked, mib(g.StoredBytes),
		mib(h.Sample.Heap), h.Sample.Goroutines, mib(h.Sample.RSS), cpus[0], cpus[1])
	return nil
}

// losses counts the calls without a result, by reason.
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

// unaccounted returns what has begun and has no end that is counted. Each modern call and each task has one.
func unaccounted(t map[string]int64) error {
	for _, kind := range []string{"modern calls", "tasks"} {
		var ended int64
		for k, n := range t {
			if strings.HasPrefix(k, kind+": ") {
				ended += n
			}
		}
		if ended != t[kind] {
			return fmt.Errorf("of %d %s, %d are accounted for", t[kind], kind, ended)
		}
	}
	return nil
}

// summary writes the final report.
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
