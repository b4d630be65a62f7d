package proc

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// Main must be the first call of the program, and of TestMain in tests. If this process was started as a server or as load, Main does
// that work and ends the process. Otherwise it returns.
func Main(find func(name string) (subject.Subject, bool)) {
	if len(os.Args) < 2 {
		return
	}
	var err error
	switch os.Args[1] {
	case "serve":
		err = serve(find, os.Args[2:])
	case "load":
		err = work()
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// addresses is the first line that a serving process prints.
type addresses struct {
	Addr  string `json:"addr"`
	Owner string `json:"owner"`
	Admin string `json:"admin"`
}

// serve serves until stdin ends: the starting process has closed it, or has ended.
func serve(find func(name string) (subject.Subject, bool), args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	name := flags.String("subject", "", "the `name` of what to serve")
	storeBytes := flags.Int64("store-bytes", 0, "room in its event store; 0: the library's default")
	redis := flags.String("redis", "", "the `address` of the engine, for subjects that use one")
	lease := flags.Duration("lease", 0, "of the process in its cluster; 0: the default")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, ok := find(*name)
	if !ok {
		return fmt.Errorf("no subject is named %q", *name)
	}
	served, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	gate, engine, owner := subject.NewGate(), &subject.Engine{}, &subject.Owner{}
	handler, err := s.New(subject.Options{
		StoreBytes: *storeBytes, Gate: gate, Self: "http://" + served.Addr().String(), Engine: engine, Owner: owner, Redis: *redis, Lease: *lease,
	})
	if err != nil {
		return err
	}
	asked, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 3)
	go func() { failed <- http.Serve(served, handler) }()
	go func() { failed <- (&admin{gate: gate, engine: engine, owner: owner}).serve(asked) }()
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	if err := json.NewEncoder(os.Stdout).Encode(addresses{served.Addr().String(), owner.Addr(), asked.Addr().String()}); err != nil {
		return err
	}
	return <-failed
}

// task is what a loading process reads from stdin.
type task struct {
	Work string          `json:"work"`
	Job  json.RawMessage `json:"job"`
}

// workers are the functions that Work has registered, by the name of the job's type.
var workers = map[string]func(context.Context, json.RawMessage) (any, error){}

// work does one task. It ends early if stdin ends.
func work() error {
	stdin := json.NewDecoder(os.Stdin)
	var t task
	if err := stdin.Decode(&t); err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	do, ok := workers[t.Work]
	if !ok {
		return fmt.Errorf("nobody does %q", t.Work)
	}
	type result struct {
		outcome any
		err     error
	}
	done := make(chan result, 1)
	go func() {
		outcome, err := do(context.Background(), t.Job)
		done <- result{outcome, err}
	}()
	orphaned := make(chan struct{})
	go func() {
		var more json.RawMessage
		_ = stdin.Decode(&more)
		close(orphaned)
	}()
	select {
	case <-orphaned:
		return errors.New("the starting process is gone")
	case r := <-done:
		if r.err != nil {
			return r.err
		}
		return json.NewEncoder(os.Stdout).Encode(r.outcome)
	}
}
