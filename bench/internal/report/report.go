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

// Write writes performance.md and performance/*.svg in dir, a repository's docs, and the section between the marks of the README beside
// dir, if there is a README. Everything that is written is computed from the run (and the texts of missed.md); a run without what a
// target or a plot needs is an error, and nothing is written.
func Write(run results.Run, dir string) error {
	files, err := documents(run)
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

// documents are the files of a run, by their names in docs.
func documents(run results.Run) (map[string][]byte, error) {
	texts, err := explanations(missedText)
	if err != nil {
		return nil, err
	}
	verdicts, err := judge(run, targets())
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
	b.WriteString(targetsTable(verdicts))
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
	b.WriteString(subjectsTable(run))
	files["performance.md"] = []byte(b.String())
	return files, nil
}

const opening = "# Performance\n\n" +
	"Written by `make bench` from [results.json](performance/results.json), which has the values of every round; no figure here is typed. Your machine\n" +
	"will find other values, and much the same ratios.\n\n"

const method = "\n## How it is measured\n" +
	"Each subject is a server in a process of its own, started anew for each round; the load is another process, over loopback. In a round every subject\n" +
	"runs once; those that are compared with each other run one after the other. *Pinned*: the server has one core and `GOMAXPROCS=1`, the load has the other. *Shared*: both have both cores, and get in each\n" +
	"other's way. The load generator compares every answer with what it must be, the same for all.\n\n" +
	"A shared machine is not quiet: absolute values drift by a tenth and more within an hour. So read ratios. A ratio compares two subjects\n" +
	"in the same round; what stands here is the median of the rounds' ratios, and in the table of targets also the least and the greatest. **Above 1 is better**,\n" +
	"for costs too, except where a row says that it wants a cost below a bound. 1 KB is 1000 bytes.\n\n" +
	"The bases are handlers written by hand on net/http and `encoding/json` that do what the specification asks and nothing else. A base is no limit: what\n" +
	"decodes less than `encoding/json`, or flushes less often, is above 1.\n"

const figures = "Medians of the rounds; in brackets the ratio to the base.\n"

// The README's section stands between these lines.
const (
	begin = "<!-- performance: written by make bench -->\n"
	end   = "<!-- performance: end -->\n"
)

// between puts the section where the README has its marks.
func between(readme []byte, section string) ([]byte, error) {
	head, rest, ok := bytes.Cut(readme, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, errors.New("the README has no place for its section on performance, between " + strings.TrimSpace(begin) + " and " + strings.TrimSpace(end))
	}
	return slices.Concat(head, []byte(begin), []byte(section), []byte(end), tail), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
