package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

const root = "../../.."

// The documents of the repository are computed from its results: no value in them is typed.
func TestTheDocumentsAreWhatTheResultsComeTo(t *testing.T) {
	docs := filepath.Join(root, "docs")
	text, err := os.ReadFile(filepath.Join(docs, "performance", "results.json"))
	old, readErr := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, readErr)
	if errors.Is(err, os.ErrNotExist) { // before the first run there are no documents
		require.NoFileExists(t, filepath.Join(docs, "performance.md"))
		empty, err := between(old, "")
		require.NoError(t, err)
		require.Equal(t, string(old), string(empty))
		return
	}
	require.NoError(t, err)
	var run, engine results.Run
	require.NoError(t, json.Unmarshal(text, &run))
	text, err = os.ReadFile(filepath.Join(docs, "performance", "engine.json"))
	if !errors.Is(err, os.ErrNotExist) { // no run with an engine is published: the documents have no section for it
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &engine))
	}
	files, err := documents(run, engine)
	require.NoError(t, err)
	for _, name := range sortedKeys(files) {
		text, err := os.ReadFile(filepath.Join(docs, name))
		require.NoError(t, err)
		require.Equal(t, string(files[name]), string(text), "docs/%s is not what `bench report` makes of docs/performance/*.json: run it", name)
	}
	pictures, err := filepath.Glob(filepath.Join(docs, "performance", "*.svg"))
	require.NoError(t, err)
	require.Len(t, pictures, len(files)-1, "a picture is left over")
	section, err := readme(run)
	require.NoError(t, err)
	want, err := between(old, section)
	require.NoError(t, err)
	require.Equal(t, string(want), string(old), "the README's section is not what `bench report` makes of docs/performance/results.json: run it")

	texts, err := explanations(missedText)
	require.NoError(t, err)
	verdicts, err := judge(run, targetsOf(run))
	require.NoError(t, err)
	require.Empty(t, unexplained(verdicts, texts), "missed, and missed.md does not say why")
	if len(engine.Scenarios) > 0 {
		verdicts, err = judge(engine, engineTargets())
		require.NoError(t, err)
		require.Empty(t, unexplained(verdicts, texts), "missed, and missed.md does not say why")
	}
}

// Write writes all documents, and the same ones a second time.
func TestWriteWritesTheDocuments(t *testing.T) {
	dir := t.TempDir()
	docs, readme := filepath.Join(dir, "docs"), filepath.Join(dir, "README.md")
	require.NoError(t, os.WriteFile(readme, []byte("a\n"+begin+"stale text\n"+end+"b\n"), 0o600))
	run, engine := syntheticRun(), syntheticEngine()
	engine.Short = true
	require.NoError(t, Write(run, engine, docs))
	first := tree(t, dir)
	require.NoError(t, Write(run, engine, docs))
	require.Equal(t, first, tree(t, dir))
	require.Equal(t, []string{
		"README.md", "docs/performance.md", "docs/performance/burst.svg", "docs/performance/calls.svg", "docs/performance/replay.svg", "docs/performance/waiting.svg",
	}, sortedKeys(first))

	front := first["README.md"]
	require.True(t, strings.HasPrefix(front, "a\n"+begin+"\n## ") && strings.HasSuffix(front, "\n\n"+end+"b\n"), front)
	require.NotContains(t, front, "stale text")
	require.NotContains(t, front, "%!")
	document := first["docs/performance.md"]
	require.NotContains(t, document, "%!")
	for _, want := range []string{"| date | 2026-01-02T03:04:05Z |", "| processor | none, 2 cores |", "| memory | 8 GiB |", "| go | go0 |", "| rounds | 3, in 1 s |", "| rounds | 3, in 1 s: a short run, with fewer rounds than usual |"} {
		require.Contains(t, document, "\n"+want+"\n")
	}
	for _, s := range slices.Concat(run.Scenarios, engine.Scenarios) {
		want := "\n### " + s.Title + "\n" + paragraph(s.Text) + "\n\n| subject |"
		require.True(t, strings.Contains(document, want), want) //nolint:testifylint // the document is long
	}
	columns := 0
	for line := range strings.Lines(document) {
		switch {
		case !strings.HasPrefix(line, "|"):
			columns = 0
		case columns == 0:
			columns = strings.Count(line, "|")
		default:
			require.Equal(t, columns, strings.Count(line, "|"), line)
		}
	}
	for name, text := range first {
		if strings.HasSuffix(name, ".svg") {
			d := xml.NewDecoder(strings.NewReader(text))
			for _, err := d.Token(); err != io.EOF; _, err = d.Token() {
				require.NoError(t, err, name)
			}
			require.Regexp(t, `<path d="M0,0L600,0L600,([0-9]+)L0,([0-9]+)Z" style="fill:#FFFFFF" />`, text, "dark pages would show through")
			require.Equal(t, strings.Count(text, "<text "), strings.Count(text, " textLength="), "a text has no width")
		}
	}
}

// tree returns the files below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"*", "*/*", "*/*/*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil {
				files[filepath.ToSlash(strings.TrimPrefix(name, dir+string(filepath.Separator)))] = string(text)
			}
		}
	}
	return files
}

// If a run lacks something, no document is written.
func TestARunThatLacksSomethingIsAnError(t *testing.T) {
	needed := map[string]bool{}
	for _, aim := range targets() {
		needed[aim.Of.Scenario] = aim.Of.Scenario != forwardedCall && aim.Of.Scenario != forwardedGet
	}
	for _, s := range syntheticRun().Scenarios {
		dir := t.TempDir()
		run := syntheticRun()
		run.Scenarios = slices.DeleteFunc(run.Scenarios, func(other results.Scenario) bool { return other.ID == s.ID })
		if err := Write(run, syntheticEngine(), dir); needed[s.ID] {
			require.ErrorContains(t, err, `the results have no scenario "`+s.ID+`"`)
			require.Empty(t, tree(t, dir))
		}

		dir = t.TempDir()
		run = syntheticRun()
		for i := range run.Scenarios {
			if run.Scenarios[i].ID == s.ID {
				run.Scenarios[i].Rows = nil
			}
		}
		require.ErrorContains(t, Write(run, syntheticEngine(), dir), "the results have no")
		require.Empty(t, tree(t, dir))
	}
	require.ErrorContains(t, Write(results.Run{}, syntheticEngine(), t.TempDir()), "the results have no scenario")
	for _, target := range engineTargets() {
		engine := syntheticEngine()
		engine.Scenarios = slices.DeleteFunc(engine.Scenarios, func(s results.Scenario) bool { return s.ID == target.Of.Scenario })
		require.ErrorContains(t, Write(syntheticRun(), engine, t.TempDir()), `the results have no scenario "`+target.Of.Scenario+`"`)
	}
	dir := t.TempDir()
	require.NoError(t, Write(syntheticRun(), results.Run{}, dir))
	require.NotContains(t, tree(t, dir)["performance.md"], "## A cluster over Redis")
}

// A README without the two marks is an error, and is not changed.
func TestTheReadmeNeedsItsMarks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte(end+begin), 0o600))
	require.ErrorContains(t, Write(syntheticRun(), syntheticEngine(), filepath.Join(dir, "docs")), "the README has no place")
	require.Equal(t, map[string]string{"README.md": end + begin}, tree(t, dir))
}

// The table of a scenario has each value, and its ratio if there is one.
func TestTheTableOfAScenario(t *testing.T) {
	s := results.Scenario{
		ID: "s", Title: "Title", Text: " Text. ",
		Metrics: []results.Metric{{Key: "a", Title: "A"}, {Key: "b", Title: "B", Plain: true}},
		Rows: []results.Row{
			{Subject: "bare", Base: "bare", Values: map[string]results.Value{"a": {Median: 1234.5, Ratio: 1}, "b": {Median: 0.01234}}},
			{Subject: "x", Base: "bare", Values: map[string]results.Value{"a": {Median: 12.34, Ratio: 1.256}, "b": {Median: -0.0001, Ratio: 2}}},
			{Subject: "y", Base: "bare", Values: map[string]results.Value{"b": {Median: 5.0}}},
		},
	}
	text, err := scenarioTable(s)
	require.NoError(t, err)
	require.Equal(t, `
### Title
Text.

| subject | base | A | B |
|---|---|---|---|
| `+"`bare`"+` |  | 1234 | 0.012 |
| `+"`x`"+` | `+"`bare`"+` | 12.3 (1.26) | 0 |
| `+"`y`"+` |  | – | 5 |
`, text)
	s.Metrics = s.Metrics[1:]
	text, err = scenarioTable(s)
	require.NoError(t, err)
	require.Contains(t, text, "\n| subject | B |\n|---|---|\n| `bare` | 0.012 |\n", "without ratios there are no bases")
}

// The text of a scenario is one long line in the results.
func TestParagraph(t *testing.T) {
	require.Equal(t, "A b.", paragraph(" A\nb. "))
	long := strings.Repeat("x", 157)
	require.Equal(t, long+"\na b\n"+long+long+"\nc", paragraph(long+" a b "+long+long+" c"))
	require.Equal(t, long[2:]+" b\nc", paragraph(long[2:]+" b c"))
	require.Empty(t, paragraph(""))
}

// Each missed target needs a text. A text about a target that was reached is named, and a text about an unknown target is refused.
func TestWhatWasMissedIsExplained(t *testing.T) {
	texts, err := explanations("about\n\n## json-pinned\n\nBecause.\n\n### More\nof it\n\n## sse-pinned\nWhy not.\n## chi-pinned\n")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"json-pinned": "Because.\n\n### More\nof it", "sse-pinned": "Why not."}, texts)
	verdicts := []verdict{
		{target: target{Key: "json-pinned", What: "JSON", Bound: 2}, measured: measured{Median: 1}},
		{target: target{Key: "chi-pinned", What: "chi", Bound: 2}, measured: measured{Median: 1.5}},
		{target: target{Key: "sse-pinned", What: "SSE", Bound: 2}, measured: measured{Median: 3}, Reached: true},
	}
	require.Equal(t, []string{"chi-pinned"}, unexplained(verdicts, texts))
	require.Equal(t, "\n### What was missed, and why\n\n**JSON** (1, wanted ≥ 2).\nBecause.\n\n### More\nof it\n\n"+
		"**chi** (1.50, wanted ≥ 2): not investigated yet.\n\n*`bench/internal/report/missed.md` has a text on \"SSE\", which this run reached.*\n", missed(verdicts, texts))
	require.Empty(t, missed(verdicts[2:], nil))

	_, err = explanations("## no-such\nx")
	require.EqualError(t, err, `missed.md: there is no target "no-such"`)
	_, err = explanations("## json-pinned\nx\n## json-pinned\ny")
	require.EqualError(t, err, `missed.md: target "json-pinned" has two texts`)
	_, err = explanations(missedText)
	require.NoError(t, err)
}
