package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// rampage is a mutant that real processes on a real engine must show: field/chaos with these arguments must find it.
type rampage struct {
	mutant

	args  string
	finds string // what it counts, in its words
}

// Runs of all rampages have this in common. The seed chooses the faults; what happens in them differs each time.
const rampageArgs = "-clients 150 -typescript=false -seed 1 -pause 1s "

var rampages = []rampage{
	{mutant{
		promise: fenced, what: "the engine takes events of an owner that was fenced",
		file: "redisstore/scripts/append.lua", old: `elseif got[2] ~= fence then`, new: `elseif false then`,
	}, "-for 45s -faults pause -persistence always", "writes of two owners"},
	{mutant{
		promise: oneDies, what: "the owner keeps no tail",
		file: "internal/engine/owner.go", old: `		l.keep(first, events, seal)`, new: ``,
	}, "-for 30s -faults restart -persistence none", "calls of living owners ended"},
	{mutant{
		promise: known, what: "the primer does not wait for the record of its stream",
		file: "internal/engine/begin.go", old: `	if c.s.owner == nil || st == nil || st.begun`,
		new: `	if true || c.s.owner == nil || st == nil || st.begun`,
	}, "-for 45s -faults kill -persistence always", "events or results lost"},
	{mutant{
		promise: outages, what: "an owner is dead before that is known",
		file: "internal/member/watch.go", old: `	case w.asked.Sub(since) > w.lease:
		return Dead`, new: `	case now.Sub(since) > w.lease/10:
		return Dead`,
	}, "-for 20s -faults away -persistence always", "calls of living owners ended"},
	{mutant{
		promise: fenced, what: "an epoch alone is the fence",
		file: "redisstore/scripts/append.lua", old: `elseif got[2] ~= fence then`,
		new: `elseif string.match(got[2], '^%d+') ~= string.match(fence, '^%d+') then`,
	}, "-for 60s -faults adopted -persistence always", "writes of two owners"},
}

// runRampages proves that field/chaos finds what it is there for.
func runRampages(root, only string) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := copyFiles(dir, root, true); err != nil {
		return err
	}
	tried, survived := 0, 0
	for i := range rampages {
		r := &rampages[i]
		if !strings.Contains(r.promise+" "+r.what, only) {
			continue
		}
		tried++
		start := time.Now()
		verdict, found := "killed", ""
		if _, err := r.chaos(dir); err != nil {
			return fmt.Errorf("chaos %s fails without a mutant: %w", r.args, err)
		}
		err := r.with(dir, func() (err error) {
			found, err = r.chaos(dir)
			return err
		})
		switch {
		case err == nil:
			verdict = "SURVIVED"
			survived++
		case found == "":
			verdict = "FAULT: " + err.Error()
			survived++
		}
		fmt.Printf("%s\n  %-8s %s (chaos %s, %.0f s)\n    %s\n", r.promise, verdict, r.what, r.args, time.Since(start).Seconds(), found)
	}
	switch {
	case tried == 0:
		return errors.New("there is no such mutant")
	case survived > 0:
		return fmt.Errorf("%d mutants were not killed", survived)
	}
	return nil
}

// chaos runs field/chaos in a copy of the workspace. If it finds something, that is an error, and found is the first of what the mutant must cause.
func (r *rampage) chaos(dir string) (found string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	program := filepath.Join(dir, "chaos.exe")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, "./field/chaos") //nolint:gosec // of this program
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	run := exec.CommandContext(ctx, program, strings.Fields(rampageArgs+r.args)...) //nolint:gosec // likewise
	run.Dir = dir
	run.Env = append(os.Environ(), "TMPDIR="+dir)
	run.WaitDelay = time.Minute
	out, err := run.CombinedOutput()
	if err == nil {
		return "", nil
	}
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(line, "FOUND "); ok && strings.HasPrefix(text, r.finds) {
			return strings.TrimSpace(text), err
		}
	}
	return "", fmt.Errorf("%w\n%s", err, out)
}
