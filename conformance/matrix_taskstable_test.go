//go:build node

package conformance_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rejoin-mcp/rejoin"
)

const tasksIntro = `
## Clients that know tasks
These clients of version 2026-07-28 know tasks. Here they are behind ` + "`EraBoth`" + `. Their calls take up to two seconds, and become tasks after
300 ms.

- *Long call*: how the call with a ` + "`CloseAfter`" + ` of the table above ended, and how many of its three messages about progress arrived as such, before it
  became a task, and as the status of the task, which begins with the newest message. Package client says each message once.
- *Cut connections*: a proxy cuts each connection after one second. [eras.md](eras.md) has the clients that do not know tasks behind this proxy.
- *A lost poll*: the connection of the first ` + "`tasks/get`" + ` is cut. If the client gives up, the task lives on.
- *Questions*: the tool asks twice in the task. With an SDK it returns its questions, and with ` + "`NewApp` it calls `Handle.Ask`" + `.
- *Cancel*: whether the tool *stops* when the client cancels the task, and what the client says.
- *Resume*: the client is killed, and a new process waits for the task.

ext-tasks leaves it to its application to send requests. With *repeating polls* the application reports a lost ` + "`tasks/get`" + ` as one to be repeated,
which ext-tasks then does once. The Inspector's ` + "`--cli` cannot be asked; `mcpdo`" + ` prints the question, and another command of it answers. Neither says
which task it waits for, so no other process can go on with it, or cancel it.

`

// tasksTable is the document's part about tasks.
func tasksTable(a album, met []customer) string {
	var b strings.Builder
	b.WriteString(tasksIntro + "| client | behind | long call |")
	for _, what := range taskScenarios() {
		b.WriteString(" " + what.name + " |")
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(taskScenarios())) + "\n")
	for _, c := range met {
		if !c.tasks {
			continue
		}
		for _, same := range alike(modernSettings(), func(in setting) string { return longCalls(a, c, in) }) {
			behind := "each"
			if len(same.in) < len(modernSettings()) {
				behind = strings.ReplaceAll(together(same.in), ", Both", "")
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", c.name, behind, same.what)
		}
	}
	return b.String()
}

func modernSettings() []setting {
	return slices.DeleteFunc(settings(), func(in setting) bool { return in.eras != rejoin.EraBoth })
}

// longCalls returns the cells of a client in a setting.
func longCalls(a album, c customer, in setting) string {
	see := func(scenario string) sight {
		s := a[view{c.name, in.String(), scenario}]
		if s.tasks == 0 {
			s.end = "no task: " + s.end
		}
		return s
	}
	long := see("CloseAfter")
	progress := ", no progress"
	if long.told+long.steps > 0 {
		progress = fmt.Sprintf(", progress %d and status %d of %d", long.told, long.steps, toTell)
	}
	cells := []string{long.end + progress}
	for _, what := range taskScenarios() {
		s := see(what.name)
		switch {
		case s.asked > 0:
			s.end += fmt.Sprintf(", asked %d of 2", s.asked)
		case s.stopped:
			s.end = "stops: " + s.end
		}
		cells = append(cells, s.end)
	}
	return strings.Join(cells, " | ")
}
