package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
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
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// job has the parameters of a soak.
type job struct {
	For     time.Duration `json:"for"`
	Clients int           `json:"clients"`
	Seed    uint64        `json:"seed"`
	Rate    float64       `json:"rate"` // calls begun per second; 0: as many as keep the machine about two fifths busy
	Every   time.Duration `json:"every"`
	Profile string        `json:"profile"` // the file for a profile of a heap that has grown
	// Settings of the servers, which the clients know.
	IdleTTL time.Duration `json:"idleTTL"`
	Retain  time.Duration `json:"retain"`
	Abandon time.Duration `json:"abandon"`
	Longest time.Duration `json:"longest"` // of a tool
}

// goroutines is how many goroutines the servers' process is expected to have at once.
func (j *job) goroutines() int { return 6 * j.Clients }

// after is how long everything may take after the load.
const after = 3 * time.Minute

func defaults() job {
	return job{
		For: 30 * time.Minute, Clients: 2000, Every: 30 * time.Second, Profile: filepath.Join(os.TempDir(), "soak-heap.pprof"),
		IdleTTL: time.Minute, Retain: 20 * time.Second, Abandon: 20 * time.Second, Longest: 20 * time.Second,
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	j := defaults()
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&j.For, "for", j.For, "how long clients come")
	flags.IntVar(&j.Clients, "clients", j.Clients, "how many there are at once")
	flags.Uint64Var(&j.Seed, "seed", uint64(time.Now().UnixNano()), "of all that is random in what clients and tools do")
	flags.Float64Var(&j.Rate, "rate", 0, "calls begun per second; 0: as many as keep the machine about two fifths busy")
	flags.DurationVar(&j.Every, "every", j.Every, "how often to say how it goes")
	flags.StringVar(&j.Profile, "profile", j.Profile, "where a heap profile of the servers goes if they hold more in the end than at the beginning")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if j.For <= 0 || j.Clients <= 0 || j.Every <= 0 || j.Rate < 0 {
		return errors.New("-for, -clients and -every must be positive, and -rate not negative")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, j.For+after, fmt.Errorf("it is not over %v after its time", after))
	defer cancel()
	return soak(ctx, j, stdout)
}
