//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	childMain()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// job has the parameters of a run.
type job struct {
	For         time.Duration
	Clients     int
	Seed        uint64
	Faults      []string
	Persistence []string
	Every       time.Duration // of planned ends; 0: a pause after each fault
	Write       string
	Keep        string
	TypeScript  bool
	Timing      timing
	Pause       time.Duration

	args string
}

// planned reports whether there are planned ends only.
func (j *job) planned() bool { return slices.Equal(j.Faults, []string{"deploy"}) }

func defaults() job {
	return job{
		For: time.Hour, Clients: 200, Faults: attackNames(), Persistence: slices.Clone(modes), TypeScript: true, Pause: 2 * time.Second,
		Timing: timing{
			Lease: 2 * time.Second, Retry: 100 * time.Millisecond, IdleTTL: 30 * time.Second, Grace: 15 * time.Second, Settle: time.Second,
			Silence: 3 * time.Second,
		},
	}
}

func parse(args []string, stderr io.Writer) (job, error) {
	j := defaults()
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&j.For, "for", j.For, "how long there are faults")
	flags.IntVar(&j.Clients, "clients", j.Clients, "how many there are at once")
	flags.Uint64Var(&j.Seed, "seed", uint64(time.Now().UnixNano()), "of what clients, tools and faults choose at random")
	flags.DurationVar(&j.Every, "every", 0, "how often there is a fault; 0: a quiet time follows each")
	flags.StringVar(&j.Write, "write", "", "the document whose marked section becomes the account")
	flags.StringVar(&j.Keep, "keep", "", "a new folder, in which the oracle and the logs stay")
	flags.DurationVar(&j.Pause, "pause", j.Pause, "between two calls of a client, on average")
	flags.DurationVar(&j.Timing.Lease, "lease", j.Timing.Lease, "of the processes")
	flags.BoolVar(&j.TypeScript, "typescript", j.TypeScript, "run clients of the official TypeScript SDK, too")
	faults := flags.String("faults", strings.Join(j.Faults, ","), "those that are made")
	persistence := flags.String("persistence", strings.Join(j.Persistence, ","), "of the engine, one after the other")
	if err := flags.Parse(args); err != nil {
		return j, err
	}
	j.args = strings.Join(args, " ")
	j.Faults, j.Persistence = strings.Split(*faults, ","), strings.Split(*persistence, ",")
	var err error
	for _, f := range j.Faults {
		if _, ok := attackNamed(f); !ok {
			err = errors.Join(err, fmt.Errorf("-faults: there is no %q; there are %s", f, strings.Join(attackNames(), ", ")))
		}
	}
	for _, m := range j.Persistence {
		if !slices.Contains(modes, m) {
			err = errors.Join(err, fmt.Errorf("-persistence: there is no %q; there are %s", m, strings.Join(modes, ", ")))
		}
	}
	if j.For <= 0 || j.Clients <= 0 || j.Pause <= 0 || j.Every < 0 || flags.NArg() > 0 {
		err = errors.Join(err, errors.New("-for, -clients and -pause must be positive, -every not negative, and nothing may follow"))
	}
	return j, err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	j, err := parse(args, stderr)
	if err != nil {
		return err
	}
	return chaos(ctx, j, stdout)
}
