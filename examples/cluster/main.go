package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command, and each of its three processes. The end of ctx, an interrupt or SIGTERM ends it early and in good order; a second one ends
// it at once.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.SetOutput(stderr)
	redis := flags.String("redis", "", "host:port of a running Redis or Valkey; by default it starts a redis-server")
	name := flags.String("serve", "", "be the process of this name; the command starts its processes so")
	report := flags.String("report", "", "the URL to which that process tells what happens")
	lease := flags.Duration("lease", 0, "the lease of that process")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "cluster: unexpected argument %q\n", flags.Arg(0))
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	var err error
	if *name != "" {
		err = process(ctx, reporter{*report, *name}, *redis, *lease)
	} else {
		err = demo(ctx, *redis, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "cluster: "+strings.ReplaceAll(err.Error(), "\n", "\ncluster: "))
		return 1
	}
	return 0
}

// process is one of the three. It also ends when the demo does, however that ends: the other end of its standard input is closed then.
func process(ctx context.Context, r reporter, redis string, lease time.Duration) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // how it ends does not matter
		os.Exit(1)
	}()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer port.Close()
	r.tell(started, port.Addr().String()) // connections wait until it serves
	s := &server{redis: redis, app: watched{newApp(r.work), r}, lease: lease, middleware: r.middleware}
	return s.serve(ctx, port)
}
