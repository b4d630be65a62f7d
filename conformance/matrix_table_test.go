//go:build node

package conformance_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// view identifies a sight: by client, setting and scenario.
type view struct{ client, setting, scenario string }

// album has all sights.
type album map[view]sight

const clientsIntro = `# Clients
This page lists what widely used clients do behind rejoin, and what rejoin's own [package client](client.md) does. ` + "`make clients-table`" + ` writes it:
it runs each client against servers with ` + "`NewApp`, `bridge/gosdk` and `bridge/mcpgo`, with `EraLegacy` and `EraBoth`. `make clients`" + ` runs
them again and compares. It also runs them behind two processes of a [cluster](many-machines.md) that get the requests in turn, without stickiness:
there they do the same.

The server may *disconnect* a client: it ends a stream early, after it has told the client when to reconnect (SEP-1699). The client *polls* if it
then asks for the stream of its call again. A client that never does this waits for its own time-out, if it has one. *Kept* means that the server
did not disconnect the client.

Version 2026-07-28 has no polling. There such a call becomes a [*task*](tasks.md) if it declares the extension for tasks: the client gets the name of the
task, and asks for its state until the result is there. All other calls are *kept*, and never become tasks. If an application declares the extension
and its client does not know it (*declaring tasks*), its long calls fail, or seem to have no result.

## What they do
Each client makes four calls: a quick one; one of two seconds with three reports of progress; one of 1.5 s with a ` + "`CloseAfter`" + ` of 300 ms;
and one whose tool calls ` + "`CloseStream`" + `. It also keeps a session in which the server closes the standalone stream three times.

| client | behind | version | quick | slow | ` + "`CloseAfter` | `CloseStream`" + ` | standalone stream |
|---|---|---|---|---|---|---|---|
`

// document is the page about the clients.
func document(a album, met []customer) string {
	var b strings.Builder
	b.WriteString(clientsIntro)
	for _, c := range met {
		for _, same := range alike(settings(), func(in setting) string { return deeds(a, c.name, in) }) {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", c.name, together(same.in), same.what)
		}
	}
	b.WriteString(tasksTable(a, met))
	b.WriteString("\n## How they identify themselves\n`clientInfo` of `initialize`, or of the request in the modern era, and the header `User-Agent`.\n\n" +
		"| client | clientInfo | User-Agent |\n|---|---|---|\n")
	for _, c := range met {
		info, agent := names(a, c.name)
		if info = "`" + info + "`"; c.named {
			info = "set by the application"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", c.name, info, agent)
	}
	b.WriteString("\n## What they report\nThe first line of each error that a client passes to its error handler, if it has one, or writes to stderr.\n" +
		"Clients that are not listed report nothing.\n\n" +
		"| client | when | line |\n|---|---|---|\n")
	for _, c := range met {
		for _, of := range complaints(a, c.name) {
			when := strings.Join(of.when, ", ")
			if len(of.when) == len(scenarios()) {
				when = "always"
			}
			fmt.Fprintf(&b, "| %s | %s | `%s` |\n", c.name, when, strings.ReplaceAll(of.line, "|", "\\|"))
		}
	}
	return b.String()
}

// rowsOf returns the rows of a document about one client.
func rowsOf(doc, client string) (rows []string) {
	for row := range strings.Lines(doc) {
		if strings.HasPrefix(row, "| "+client+" |") {
			rows = append(rows, row)
		}
	}
	return rows
}

// names returns how a client identifies itself, from the first sight in which it does.
func names(a album, client string) (info, agent string) {
	for _, in := range settings() {
		for _, what := range scenarios() {
			if s := a[view{client, in.String(), what.name}]; s.info != "" {
				return s.info, s.agent
			}
		}
	}
	return "", ""
}

// finding is a result, with the settings in which it was found.
type finding struct {
	in   []setting
	what string
}

// alike groups settings with the same result.
func alike(some []setting, what func(setting) string) (found []finding) {
	for _, in := range some {
		w := what(in)
		at := slices.IndexFunc(found, func(f finding) bool { return f.what == w })
		if at < 0 {
			at, found = len(found), append(found, finding{what: w})
		}
		found[at].in = append(found[at].in, in)
	}
	return found
}

// together names several settings. It names an era alone if they are all settings of that era.
func together(some []setting) string {
	if len(some) == len(settings()) {
		return "each"
	}
	var names []string
	for _, era := range []string{", Legacy", ", Both"} {
		var all, of []string
		for _, in := range settings() {
			if name := in.String(); strings.HasSuffix(name, era) {
				all = append(all, name)
				if slices.ContainsFunc(some, func(s setting) bool { return s.String() == name }) {
					of = append(of, name)
				}
			}
		}
		if len(of) == len(all) {
			of = []string{strings.TrimPrefix(era, ", ")}
		}
		names = append(names, of...)
	}
	return strings.Join(names, "; ")
}

// deeds returns the cells of a client in a setting.
func deeds(a album, client string, in setting) string {
	see := func(scenario string) sight { return a[view{client, in.String(), scenario}] }
	slow := see("slow")
	progress := fmt.Sprintf(", progress %d of %d", slow.told, toTell)
	if slow.told == 0 {
		progress = ", no progress"
	}
	return strings.Join([]string{
		slow.version, see("quick").end, slow.end + progress, polled(see("CloseAfter")), polled(see("CloseStream")), idled(see("idle")),
	}, " | ")
}

func polled(s sight) string {
	switch {
	case s.tasks > 0:
		return "task: " + s.end
	case s.letGo == 0:
		return "kept: " + s.end
	case s.back == 0:
		return "**never polls**: " + s.end
	default:
		return "polls: " + s.end
	}
}

func idled(s sight) string {
	switch {
	case s.end != endsWell:
		return s.end
	case !s.listens:
		return "not used"
	case s.letGo == 0:
		return "kept"
	case s.back < letGoes:
		return "**never reconnects**"
	default:
		return "reconnects"
	}
}

// complaint is a line that a client logs, with the scenarios in which it does.
type complaint struct {
	when []string
	line string
}

// complaints returns the lines that a client logs in all settings in which it otherwise does the same. A line that it logs in only some of
// them is left out as accidental.
func complaints(a album, client string) (found []complaint) {
	when := map[string][]string{}
	for _, what := range scenarios() {
		for _, same := range alike(settings(), func(in setting) string { return deeds(a, client, in) }) {
			for _, text := range a[view{client, same.in[0].String(), what.name}].logs {
				always := !slices.ContainsFunc(same.in, func(in setting) bool {
					return !slices.Contains(a[view{client, in.String(), what.name}].logs, text)
				})
				if always && !slices.Contains(when[text], what.name) {
					when[text] = append(when[text], what.name)
				}
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(when)) {
		found = append(found, complaint{when[text], text})
	}
	return found
}
