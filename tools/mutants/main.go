// Command mutants proves that each promise of a cluster has a test that fails without it. It changes the product in one place at a time, in a copy of the
// module, and runs the test that must fail then.
//
//	mutants [-quick | -chaos] [-only words] [directory of the module]
//
// With -chaos it changes the product in a copy of the workspace, and field/chaos must find that, and nothing without it. That takes a redis-server and
// a quarter of an hour.
//
// It fails if a mutant survives, if the text that it replaces is not there exactly once, or if it does not compile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mutant is a change of the product that breaks a promise.
type mutant struct {
	promise string
	what    string // the change, in words
	file    string
	old     string // is in the file exactly once
	new     string
	pkg     string // has the tests
	run     string // of which one must fail
}

// slow is the package whose tests take long to compile: they use the whole server.
const slow = "./tests/cluster"

// limit is how long the tests of one mutant may take. One that hangs has failed.
const limit = 20 * time.Second

func main() {
	quick := flag.Bool("quick", false, "only those whose tests are compiled in a moment")
	only := flag.String("only", "", "only those whose promise or change has these words")
	chaos := flag.Bool("chaos", false, "those that real processes must show")
	flag.Parse()
	root := flag.Arg(0)
	if root == "" {
		root = "."
	}
	err := errors.New("-quick and -chaos exclude each other")
	switch {
	case *quick && *chaos:
	case *chaos:
		err = runRampages(root, *only)
	default:
		err = run(root, *quick, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(root string, quick bool, only string) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := copyFiles(dir, root, false); err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool {
		return quick && m.pkg == slow || !strings.Contains(m.promise+" "+m.what, only)
	})
	if len(chosen) == 0 {
		return errors.New("there is no such mutant")
	}
	if err := baseline(dir, chosen); err != nil {
		return err
	}
	began, survived, promise := time.Now(), 0, ""
	for i := range chosen {
		m := &chosen[i]
		if m.promise != promise {
			promise = m.promise
			fmt.Printf("\n%s\n", promise)
		}
		start := time.Now()
		killed, err := m.try(dir)
		verdict := "killed"
		switch {
		case err != nil:
			verdict = "FAULT: " + err.Error()
			survived++
		case !killed:
			verdict = "SURVIVED"
			survived++
		}
		fmt.Printf("  %-8s %s (%s %s, %.1f s)\n", verdict, m.what, m.pkg, m.run, time.Since(start).Seconds())
	}
	fmt.Printf("\n%d mutants, %d were not killed, %d s\n", len(chosen), survived, int(time.Since(began).Seconds()))
	if survived > 0 {
		return fmt.Errorf("%d mutants were not killed", survived)
	}
	return nil
}

// copyFiles copies the module at root, and, if all, those inside it.
func copyFiles(dir, root string, all bool) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, at)
		if d.IsDir() {
			_, other := os.Stat(filepath.Join(path, "go.mod"))
			if at != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || !all && other == nil) {
				return filepath.SkipDir
			}
			return os.MkdirAll(to, 0o750)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path) //nolint:gosec // it is in the checkout
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o600)
	})
}

// baseline requires that the tests succeed without a change.
func baseline(dir string, chosen []mutant) error {
	runs := map[string][]string{}
	for i := range chosen {
		runs[chosen[i].pkg] = append(runs[chosen[i].pkg], chosen[i].run)
	}
	for pkg, all := range runs {
		if out, err := test(dir, pkg, strings.Join(all, "|")); err != nil {
			return fmt.Errorf("%s fails without a mutant: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

// with changes the copy, calls f, and changes the copy back.
func (m *mutant) with(dir string, f func() error) (err error) {
	file := filepath.Join(dir, m.file)
	is, err := os.ReadFile(file) //nolint:gosec // it is in the copy
	if err != nil {
		return err
	}
	if n := strings.Count(string(is), m.old); n != 1 {
		return fmt.Errorf("%s has the old text %d times", m.file, n)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(is), m.old, m.new, 1)), 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.WriteFile(file, is, 0o600)) }()
	return f()
}

// try tests the changed copy.
func (m *mutant) try(dir string) (killed bool, err error) {
	var out string
	err = m.with(dir, func() (err error) {
		out, err = test(dir, m.pkg, m.run)
		return err
	})
	switch failed := (*exec.ExitError)(nil); {
	case strings.Contains(out, "[build failed]"), strings.Contains(out, "[setup failed]"):
		return false, fmt.Errorf("it does not compile:\n%s", out)
	case err == nil && strings.Contains(out, "no tests to run"):
		return false, errors.New("there is no such test")
	case err == nil:
		return false, nil
	case errors.As(err, &failed), errors.Is(err, context.DeadlineExceeded):
		return true, nil
	}
	return false, err
}

// test runs tests in the copy.
func test(dir, pkg, run string) (out string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*limit) // compiling counts here
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", pkg, "-run", "^("+run+")$", "-count=1", "-failfast", "-vet=off", //nolint:gosec // from the list
		"-timeout", limit.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.WaitDelay = time.Second
	all, err := cmd.CombinedOutput()
	return string(all), err
}
