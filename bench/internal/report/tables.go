package report

import (
	"fmt"
	"slices"
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
	return fmt.Sprintf("%d of %d are reached. Each row is computed from the results.\n\n", reached, len(verdicts)) +
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
	return fmt.Sprintf("\n### %s\n%s\n\n%s", s.Title, paragraph(s.Text), table(head, rows)), nil
}

// subjectsList is the part of the document about the servers that took part.
func subjectsList(runs ...results.Run) string {
	part := map[string]bool{}
	var scenarios []results.Scenario
	for _, run := range runs {
		scenarios = append(scenarios, run.Scenarios...)
	}
	for _, s := range scenarios {
		for _, r := range s.Rows {
			part[r.Subject], part[r.Base] = true, true
		}
	}
	var list strings.Builder
	for _, s := range subject.All() {
		if !part[s.Name] || strings.HasSuffix(s.Name, "-raw") {
			continue
		}
		does := []string{yes(s.Stream, "SSE", "JSON"), yes(s.Primes && s.Stream, "primes", ""), yes(s.Stores, "stores", ""), yes(s.Closes, "disconnects clients", "")}
		does = slices.DeleteFunc(does, func(s string) bool { return s == "" })
		text := paragraph("`" + s.Name + "` (" + strings.Join(does, ", ") + "): " + s.Notes)
		list.WriteString("- " + strings.ReplaceAll(text, "\n", "\n  ") + "\n")
	}
	return "\n## Subjects\n" + subjects + list.String()
}

const subjects = "Subjects behind rejoin have no limit on the number of sessions and calls, because the other subjects have none; everything else is the default.\n" +
	"Tools of go-sdk are added by mcp.AddTool: it decodes the arguments into a struct, and checks them against its schema. A subject with `-raw` is the\n" +
	"same with tools added by Server.AddTool: the tool decodes its arguments, and nothing checks them, as in the bases and in mcp-go.\n\n"

func yes(b bool, text, otherwise string) string {
	if b {
		return text
	}
	return otherwise
}

// peersAreBetter is the part of the document about what the peers do better.
func peersAreBetter(run results.Run) string {
	list := advantages(run)
	text := "\n## What the peers are better at\n" +
		"The table has every figure above in which a peer's own handler is better, by a hundredth or more, than rejoin's own handler or than the same\n" +
		"library's server behind rejoin: medians, and the median of the rounds' ratios. Some of the peers' subjects keep no events, or have no sessions."
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
	return text + "\n\n" + table([]string{"measured", "what", "peer", "its value", "compared with", "its value", "better by"}, rows)
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
	rounds := fmt.Sprintf("%d, in %.0f s", run.Rounds, run.Seconds)
	if run.Short {
		rounds += ": a short run, with fewer rounds than usual"
	}
	rows = append(rows, []string{"rounds", rounds})
	return table([]string{"", ""}, rows)
}
