package report

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed missed.md
var missedText string

// explanations are the texts of missed.md by the keys of their targets: what stands below each heading of the second level.
func explanations(text string) (map[string]string, error) {
	known := map[string]bool{}
	for _, t := range slices.Concat(targets(), engineTargets()) {
		known[t.Key] = true
	}
	out := map[string]string{}
	for i, part := range strings.Split("\n"+text, "\n## ") {
		if i == 0 {
			continue // what the file says of itself
		}
		key, body, _ := strings.Cut(part, "\n")
		key, body = strings.TrimSpace(key), strings.TrimSpace(body)
		switch _, twice := out[key]; {
		case !known[key]:
			return nil, fmt.Errorf("missed.md: there is no target %q", key)
		case twice:
			return nil, fmt.Errorf("missed.md: target %q has two texts", key)
		case body != "":
			out[key] = body
		}
	}
	return out, nil
}

// unexplained returns the keys of missed targets that have no text.
func unexplained(verdicts []verdict, texts map[string]string) (keys []string) {
	for _, v := range verdicts {
		if !v.Reached && texts[v.Key] == "" {
			keys = append(keys, v.Key)
		}
	}
	return keys
}

// missed is the part of the document about the targets that were missed.
func missed(verdicts []verdict, texts map[string]string) string {
	var b, stale strings.Builder
	for _, v := range verdicts {
		text := texts[v.Key]
		switch {
		case v.Reached && text != "":
			fmt.Fprintf(&stale, "\n*`bench/internal/report/missed.md` has a text on %q, which this run reached.*\n", v.What)
		case !v.Reached && text == "":
			fmt.Fprintf(&b, "\n**%s** (%s, wanted %s): not investigated yet.\n", v.What, v.found(), v.wanted())
		case !v.Reached:
			fmt.Fprintf(&b, "\n**%s** (%s, wanted %s).\n%s\n", v.What, v.found(), v.wanted(), text)
		}
	}
	switch {
	case b.Len() > 0:
		return "\n### What was missed, and why\n" + b.String() + stale.String()
	case stale.Len() > 0:
		return stale.String()
	}
	return ""
}
