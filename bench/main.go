// Command bench compares rejoin with its peers and with handlers written by hand: `make bench`.
//
//	bench run      runs the scenarios, and writes the results as JSON; with -engine those that need a redis-server
//	bench report   makes the documents from the results of both
//	bench list     lists the scenarios and the subjects
//	bench serve    serves one subject until stdin ends; the first line of stdout has its addresses
//	bench load     does one job, which it reads from stdin
//
// run starts the last two as processes of their own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/report"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/scenario"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

func main() {
	proc.Main(subject.Find)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("run, report, list, serve or load?")
	}
	switch args[0] {
	case "run":
		return run(ctx, args[1:], stdout)
	case "report":
		if len(args) != 4 {
			return errors.New("report wants three arguments: the results, those with an engine, and the directory of the documents")
		}
		var runs [2]results.Run
		for i, name := range args[1:3] {
			text, err := os.ReadFile(name)
			if i == 1 && errors.Is(err, fs.ErrNotExist) {
				continue // no run with an engine is published: that section is left out
			}
			if err != nil {
				return err
			}
			if err := json.Unmarshal(text, &runs[i]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return report.Write(runs[0], runs[1], args[3])
	case "list":
		for _, s := range slices.Concat(scenario.All(), scenario.Redis()) {
			fmt.Fprintf(stdout, "%s: %s\n    %s\n", s.ID, s.Title, strings.Join(s.Subjects, " "))
		}
		return nil
	}
	return fmt.Errorf("%q is no command", args[0])
}

// run runs the scenarios one after the other. If it fails or is interrupted, it still writes the results so far.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("bench run", flag.ContinueOnError)
	scenarios := flags.String("scenarios", "", "run those only whose id matches the `expression`")
	subjects := flags.String("subjects", "", "run those only whose name matches the `expression`, and what they are compared with")
	rounds := flags.Int("rounds", 0, "so many rounds of each; 0: as many as each wants")
	out := flags.String("out", "-", "the `file` to write; -: stdout")
	engine := flags.Bool("engine", false, "run the scenarios with a redis-server, which must be installed, instead of the others")
	quick := flags.Bool("quick", false, "one short round of each, to see that all works: the figures mean nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wantScenario, err := regexp.Compile(*scenarios)
	if err != nil {
		return err
	}
	wantSubject, err := regexp.Compile(*subjects)
	if err != nil {
		return err
	}
	began := time.Now()
	env := &scenario.Env{Quick: *quick, Server: 0, Client: 1, Log: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%5.0f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}}
	found := results.Run{Date: began.UTC().Format(time.RFC3339), Machine: machine(), Versions: versions()}
	all := scenario.All()
	if *engine {
		version, err := scenario.RedisVersion(ctx)
		if err != nil {
			return err
		}
		all, found.Versions["redis-server"] = scenario.Redis(), version
	}
	var failures []error
	for _, s := range all {
		if !wantScenario.MatchString(s.ID) || !slices.ContainsFunc(s.Subjects, wantSubject.MatchString) {
			continue
		}
		n := s.Rounds
		if *quick {
			n = 1
		}
		if *rounds > 0 {
			n = *rounds
		}
		table, err := scenario.Measure(ctx, env, s, wantSubject.MatchString, n)
		if err != nil {
			failures = append(failures, err)
		}
		if ctx.Err() != nil {
			break
		}
		found.Rounds, found.Short = max(found.Rounds, n), found.Short || n < s.Rounds
		found.Scenarios = append(found.Scenarios, table)
	}
	if len(found.Scenarios) == 0 && len(failures) == 0 {
		return errors.New("nothing matches")
	}
	found.Seconds = time.Since(began).Seconds()
	env.Log("%d scenarios done, %d with failures", len(found.Scenarios), len(failures))
	return errors.Join(append(failures, write(*out, stdout, found))...)
}

func write(name string, stdout io.Writer, found results.Run) error {
	text, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if name == "-" {
		_, err = stdout.Write(text)
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
