package report

import (
	"strings"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// peer reports whether a subject is another library's own handler.
func peer(subject string) bool {
	return strings.HasPrefix(subject, "gosdk-") || strings.HasPrefix(subject, "mcpgo-")
}

// alternatives are the subjects that a peer's user could use instead: rejoin's own handler, and the same library's server behind rejoin.
func alternatives(subject string) []string {
	library, rest, _ := strings.Cut(subject, "-")
	if rest == "eventstore" {
		return []string{"rejoin-eventstore"}
	}
	if rest == "modern" {
		return []string{"rejoin-modern", "rejoin-modern-tasks", "rejoin-" + library + "-modern", "rejoin-" + library + "-modern-tasks"}
	}
	kind, raw := "json", ""
	if strings.Contains(rest, "sse") {
		kind = "sse"
	}
	if strings.HasSuffix(rest, "-raw") {
		raw = "-raw"
	}
	return []string{"rejoin-" + kind, "rejoin-" + library + "-" + kind + raw}
}

// advantage is a value in which a peer is better than one of its alternatives.
type advantage struct {
	Scenario     results.Scenario
	Metric       results.Metric
	Peer, Beside string
	Theirs, Ours float64
	Gain         float64 // above 1; 0: there is no ratio, because one of the values is 0
}

// advantages are all values in which a peer is better by a hundredth or more.
func advantages(run results.Run) (all []advantage) {
	for _, s := range run.Scenarios {
		for _, theirs := range s.Rows {
			if !peer(theirs.Subject) {
				continue
			}
			for _, name := range alternatives(theirs.Subject) {
				ours, ok := row(s, name)
				if !ok {
					continue
				}
				for _, m := range s.Metrics {
					if w, better := compare(s, m, theirs, ours); better {
						all = append(all, w)
					}
				}
			}
		}
	}
	return all
}

// compare compares one metric of two rows. A metric without ratios counts only if less is better.
func compare(s results.Scenario, m results.Metric, theirs, ours results.Row) (advantage, bool) {
	a, b := theirs.Values[m.Key], ours.Values[m.Key]
	w := advantage{Scenario: s, Metric: m, Peer: theirs.Subject, Beside: ours.Subject, Theirs: a.Median, Ours: b.Median}
	if m.Plain && !m.Less || len(a.Rounds) == 0 || len(a.Rounds) != len(b.Rounds) {
		return w, false
	}
	if m.Less {
		a, b = b, a
	}
	gains := make([]float64, len(a.Rounds))
	for i := range gains {
		if a.Rounds[i] <= 0 || b.Rounds[i] <= 0 { // there is no ratio: the larger median wins
			return w, a.Median > b.Median
		}
		gains[i] = a.Rounds[i] / b.Rounds[i]
	}
	w.Gain = median(gains)
	return w, w.Gain >= 1.01
}
