// Package report makes the documents of a run of the benchmarks: docs/performance.md with its plots, and the README's section.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// Write writes performance.md and performance/*.svg into dir, the docs of a repository, and the section of the README between its marks, if
// there is a README beside dir. Everything is computed from the runs, the second of which is that with an engine (without scenarios, if there was none yet), and from the texts of missed.md.
// If a run lacks a value that a target or a plot needs, Write returns an error and writes nothing.
func Write(run, engine results.Run, dir string) error {
	files, err := documents(run, engine)
	if err != nil {
		return err
	}
	section, err := readme(run)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "..", "README.md")
	switch old, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if files["../README.md"], err = between(old, section); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "performance"), 0o755); err != nil {
		return err
	}
	for _, name := range sortedKeys(files) {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// documents are the files of two runs, by their names in docs.
func documents(run, engine results.Run) (map[string][]byte, error) {
	texts, err := explanations(missedText)
	if err != nil {
		return nil, err
	}
	verdicts, err := judge(run, targetsOf(run))
	if err != nil {
		return nil, err
	}
	plots, err := plots(run)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	var b strings.Builder
	b.WriteString(opening)
	b.WriteString(machine(run))
	b.WriteString(method)
	b.WriteString("\n## Targets\n" + targetsTable(verdicts))
	b.WriteString(missed(verdicts, texts))
	b.WriteString("\n## Pictures\n")
	for _, p := range plots {
		if files["performance/"+p.Name+".svg"], err = p.svg(); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "![%s](performance/%s.svg)\n\n%s\n\n", p.Title, p.Name, p.Text)
	}
	b.WriteString("## Figures\n")
	b.WriteString(figures)
	for _, s := range run.Scenarios {
		text, err := scenarioTable(s)
		if err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	b.WriteString(peersAreBetter(run))
	section, err := engineSection(engine, texts)
	if err != nil {
		return nil, err
	}
	b.WriteString(section)
	b.WriteString(subjectsList(run, engine))
	files["performance.md"] = []byte(b.String())
	return files, nil
}

const opening = "# Performance\n\n" +
	"`make bench` writes this page from [results.json](performance/results.json), which has the values of every round. No figure here is typed. Your\n" +
	"machine will measure other values, but similar ratios.\n\n"

const method = "\n## How it is measured\n" +
	"Each subject is a server in a process of its own, started again for each round. The load is another process, over loopback. In a round every subject runs\n" +
	"once; subjects that are compared with each other run one after the other. *Pinned*: the server has one core and `GOMAXPROCS=1`, the load has the other.\n" +
	"*Shared*: both use both cores, and disturb each other. The load generator compares every answer with the expected one, which is the same for all subjects.\n\n" +
	"A shared machine is not quiet: absolute values change by a tenth and more within an hour. So read the ratios. A ratio compares two subjects in the same\n" +
	"round. The tables give the median of the rounds' ratios; the table of targets also gives the least and the greatest. **Above 1 is better**, for costs too,\n" +
	"except where a row requires a cost below a bound. 1 KB is 1000 bytes.\n\n" +
	"The bases are handlers written by hand with net/http and `encoding/json` that do what the specification requires and nothing else. A subject can be better\n" +
	"than its base, above 1, if it decodes less than `encoding/json`, or flushes less often.\n"

const figures = "Medians of the rounds, with the ratio to the base in brackets.\n"

// The README's section stands between these lines.
const (
	begin = "<!-- performance: written by make bench -->\n"
	end   = "<!-- performance: end -->\n"
)

// between replaces what the README has between the marks by the section.
func between(readme []byte, section string) ([]byte, error) {
	head, rest, ok := bytes.Cut(readme, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, errors.New("the README has no place for its section on performance, between " + strings.TrimSpace(begin) + " and " + strings.TrimSpace(end))
	}
	return slices.Concat(head, []byte(begin), []byte(section), []byte(end), tail), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
