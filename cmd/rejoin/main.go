package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes; doc.go says what they mean.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitNoAnswer  = 3
	exitLeft      = 4
	exitCancelled = 5
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second signal kills
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the command and returns its exit code. When ctx ends, the call is left as doc.go says.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr *os.File) int {
	a := &app{stdin: stdin, out: newPrinter(stdout, stderr)}
	root := a.commands()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil { // an error of usage; all others set a.code
		a.out.console.line("rejoin: " + err.Error())
		fmt.Fprintln(stderr, "Try 'rejoin --help'.")
		return exitUsage
	}
	return a.code
}
