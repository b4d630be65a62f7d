package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// targetsTable is the part of the document about the targets.
func targetsTable(verdicts []verdict) string {
	rows := make([][]string, 0, len(verdicts))
	reached := 0
	for _, v := range verdicts {
		outcome := "**missed**"
		if v.Reached {
			outcome = "reached"
			reached++
		}
		spread := ""
		least, _ := v.Unit.digits(v.Least, 2)
		if most, _ := v.Unit.digits(v.Most, 2); least != most {
			spread = least + " … " + most
		}
		rows = append(rows, []string{v.What, "`" + v.Of.Subject + "`", v.base(), v.wanted(), v.found(), spread, outcome})
	}
	return fmt.Sprintf("\n## Targets\n%d of %d are reached. Each row is computed from the results.\n\n", reached, len(verdicts)) +
		table([]string{"what", "subject", "base", "wanted", "measured", "rounds", ""}, rows)
}

// scenarioTable is the part of the document about one scenario.
func scenarioTable(s results.Scenario) (string, error) {
	if len(s.Rows) == 0 || len(s.Metrics) == 0 {
		return "", fmt.Errorf("the results have nothing in scenario %q", s.ID)
	}
	head := []string{"subject", "base"}
	for _, m := range s.Metrics {
		head = append(head, m.Title)
	}
	var rows [][]string
	based := false
	for _, r := range s.Rows {
		line := []string{"`" + r.Subject + "`", ""}
		for _, m := range s.Metrics {
			v, ok := r.Values[m.Key]
			switch {
			case !ok:
				line = append(line, "–")
			case m.Plain || v.Ratio == 0 || r.Base == r.Subject:
				line = append(line, number(v.Median))
			default:
				line = append(line, number(v.Median)+" ("+ratio(v.Ratio)+")")
				line[1], based = "`"+r.Base+"`", true
			}
		}
		rows = append(rows, line)
	}
	if !based { // no ratio at all
		head = append(head[:1], head[2:]...)
		for i, line := range rows {
			rows[i] = append(line[:1], line[2:]...)
		}
	}
	return fmt.Sprintf("\n### %s\n%s\n\n%s", s.Title, strings.TrimSpace(s.Text), table(head, rows)), nil
}

// subjectsTable is the part of the document about the servers that took part.
func subjectsTable(run results.Run) string {
	part := map[string]bool{}
	for _, s := range run.Scenarios {
		for _, r := range s.Rows {
			part[r.Subject], part[r.Base] = true, true
		}
	}
	var rows [][]string
	for _, s := range subject.All() {
		if part[s.Name] {
			rows = append(rows, []string{"`" + s.Name + "`", yes(s.Stream, "SSE", "JSON"), yes(s.Primes && s.Stream, "yes", ""), yes(s.Stores, "yes", ""), yes(s.Closes, "yes", ""), s.Notes})
		}
	}
	return "\n## Subjects\n" + table([]string{"subject", "answers", "primes", "stores", "lets clients go", ""}, rows)
}

func yes(b bool, text, otherwise string) string {
	if b {
		return text
	}
	return otherwise
}

// peersAreBetter is the part of the document about what the peers do better.
func peersAreBetter(run results.Run) string {
	list := wins(run)
	text := "\n## What the peers are better at\n" +
		"Every figure above in which a peer's own handler is better, by a hundredth or more, than rejoin's own handler or than the same\n" +
		"library's server behind rejoin: medians, and the median of what each round says. Some of the peers' subjects keep no events, or have no sessions."
	if len(list) == 0 {
		return text + " This run has none.\n"
	}
	rows := make([][]string, 0, len(list))
	for _, w := range list {
		gain := "–"
		if w.Gain > 0 {
			gain = ratio(w.Gain)
		}
		rows = append(rows, []string{w.Scenario.Title, w.Metric.Title, "`" + w.Peer + "`", number(w.Theirs), "`" + w.Beside + "`", number(w.Ours), gain})
	}
	return text + "\n\n" + table([]string{"measured", "what", "peer", "its value", "beside", "its value", "better by"}, rows)
}

// machine is what the run was made on, and with.
func machine(run results.Run) string {
	rows := [][]string{
		{"date", run.Date},
		{"processor", fmt.Sprintf("%s, %d cores", run.Machine.CPU, run.Machine.Cores)},
		{"memory", strconv.FormatFloat(float64(run.Machine.Memory)/(1<<30), 'f', 0, 64) + " GiB"},
		{"system", run.Machine.System},
	}
	for _, name := range sortedKeys(run.Versions) {
		rows = append(rows, []string{name, run.Versions[name]})
	}
	rows = append(rows, []string{"rounds", fmt.Sprintf("%d, in %.0f s", run.Rounds, run.Seconds)})
	return table([]string{"", ""}, rows)
}
