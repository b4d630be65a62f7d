//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// stalled is a time in which the machine ran nothing of this process, so that a lease may have run out without any other cause.
const stalled = "stall of the machine"

// slowEngine is a time in which the engine did not answer soon.
const slowEngine = "slow engine"

// effects computes what the faults have done to calls.
func (j *trial) effects() {
	kinds := map[string]*effect{}
	for i := range j.Strikes {
		s := &j.Strikes[i]
		k := kinds[s.Fault]
		if k == nil {
			k = &effect{Fault: s.Fault, Errors: map[string]int{}}
			kinds[s.Fault] = k
			j.v.Faults = append(j.v.Faults, k)
		}
		if !s.Part {
			k.Times++
		}
	}
	for _, r := range j.Calls {
		t := j.tools[r.Name]
		touched := append([]string{t.owner()}, j.Fronts[r.Name]...)
		counted := map[string]bool{}
		for i := range j.Strikes {
			s := &j.Strikes[i]
			meets := s.From.Before(r.Ended) && s.To.After(r.Begun) &&
				(len(s.Targets) == 0 || slices.ContainsFunc(touched, func(p string) bool { return slices.Contains(s.Targets, p) }))
			if !meets || counted[s.Fault] {
				continue
			}
			counted[s.Fault] = true
			k := kinds[s.Fault]
			k.Affected++
			if r.Outcome == answered {
				k.Answered++
			}
		}
		if why := r.problem(); why != "" {
			s := j.cause(r, r.Ended, touched...)
			if r.Outcome == refusedBy {
				s = j.anyAt(r.Begun, r.Ended)
			}
			if s != nil {
				k := kinds[s.Fault]
				k.Errors[why]++
				if r.Outcome == failed && r.Ended.After(s.From) && r.Begun.Before(s.To) {
					k.Delays = append(k.Delays, r.Ended.Sub(s.From))
				}
			}
		}
	}
}

// problem is what has come in place of a result; "": nothing.
func (r *record) problem() string {
	switch r.Outcome {
	case answered:
		return ""
	case failed:
		why, _, _ := strings.Cut(r.Why, ":")
		return why
	}
	return r.Outcome
}

// quantile returns the q-th part of some durations.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// called says what the faults are called in the account.
var called = map[string]string{
	"kill":      "`kill -9`; another process on another port",
	"replace":   "`kill -9`; another process at its address",
	"pause":     "`SIGSTOP` for 0.4 to 2.2 leases",
	"away":      "engine away for 1.2 to 2.2 leases",
	"restart":   "engine crashes, and comes back ¹",
	"promote":   "replica without the newest data takes over",
	"adopted":   "the same, without an adoption ²",
	"enginecut": "a process does not reach the engine ³",
	"nodecut":   "a process is not reached by the others ³",
	"memory":    "engine without memory",
	"deploy":    "`SIGTERM`; another process",
	stalled:     "this machine stood still",
	slowEngine:  "engine slow by itself, or in another fault",
}

// account writes the tables of a run, in Markdown.
func account(j *job, v *verdict, calls int, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d clients, %d calls, leases of %v.\n\n", took.Round(time.Second), j.Clients, calls, j.Timing.Lease)
	b.WriteString("| must not be | count |\n|---|---|\n")
	for _, z := range zeros {
		if z != acts || j.planned() {
			fmt.Fprintf(&b, "| %s | %d |\n", z, v.Zeros[z])
		}
	}
	b.WriteString("\n| fault | times | calls | result | `owner_lost` | other error | refused | no id | gave up | p50, p99, max |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range v.Faults {
		times := ""
		if len(f.Delays) > 0 {
			times = fmt.Sprintf("%s, %s, %s", seconds(quantile(f.Delays, 0.5)), seconds(quantile(f.Delays, 0.99)), seconds(quantile(f.Delays, 1)))
		}
		other := 0
		for why, n := range f.Errors {
			if !slices.Contains([]string{"owner_lost", refusedBy, noID, gaveUp}, why) {
				other += n
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %s |\n", cmp.Or(called[f.Fault], f.Fault), f.Times, f.Affected, f.Answered,
			f.Errors["owner_lost"], other, f.Errors[refusedBy], f.Errors[noID], f.Errors[gaveUp], times)
	}
	b.WriteString(notes(j))
	if len(v.Apart) > 0 {
		b.WriteString("\n| no promise, counted apart | count |\n|---|---|\n")
		for _, a := range slices.Sorted(maps.Keys(v.Apart)) {
			fmt.Fprintf(&b, "| %s | %d |\n", a, v.Apart[a])
		}
	}
	b.WriteString("\n| client | " + strings.Join(outcomes, " | ") + " |\n|---" + strings.Repeat("|---", len(outcomes)) + "|\n")
	for _, k := range kinds {
		b.WriteString("| " + k.name)
		for _, o := range outcomes {
			fmt.Fprintf(&b, " | %d", v.Answers[k.name+"\x00"+o])
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// notes explains the table of the faults.
func notes(j *job) string {
	if j.planned() {
		return "\nCalls are those that ran meanwhile, in the process or through it.\n"
	}
	return "\nCalls are those that ran meanwhile, in the process or through it; the columns behind them also count later calls that failed for this\n" +
		"cause. The last column is the time from the fault to the error. Faults come alone, and two at once.\n\n" +
		"- ¹ With " + strings.Join(j.Persistence, ", ") + ", one after the other. With everysec it has lost the last 1.5 s, as after a\n" +
		"  power cut; with none, all.\n" +
		"- ² An owner was killed before, and the adopter does not reach the engine then, so that another process adopts under the same epoch.\n" +
		"- ³ Refused, half open, requests or answers only, or 150 ms slower, for 0.5 to 2.2 leases.\n"
}

var outcomes = []string{answered, failed, noID, refusedBy, gaveUp, gone, vanished, hung}

// section returns what stands around the account of a run in a document.
func (j *job) section() (begin, end string) {
	what := "chaos"
	if j.planned() {
		what = "deploys"
	}
	return "<!-- written by make chaos: " + what + " -->", "<!-- end of " + what + " -->"
}

// writeInto replaces the account in a document.
func (j *job) writeInto(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := j.section()
	before, rest, found := strings.Cut(string(old), begin)
	_, behind, ended := strings.Cut(rest, end)
	if !found || !ended {
		return errors.New(path + " has no section for the account: " + begin + " … " + end)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+text+end+behind), 0o644) //nolint:gosec // a document
}
