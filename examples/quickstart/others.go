package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/rejoin-mcp/rejoin/examples/quickstart/internal/show"
)

// others are the quickstarts on other routers. They are commands of their own, so a router is downloaded and built only if it is asked for.
var others = &show.Others{Names: []string{"chi", "echo", "gin"}, Run: build}

const home = "github.com/rejoin-mcp/rejoin/examples/quickstart/"

// build builds the quickstart on a router, and runs it. An interrupt at a terminal reaches that program too, which ends in good order, so
// build only waits for it. The end of ctx is passed on as an interrupt.
func build(ctx context.Context, router string, args []string, stdout, stderr io.Writer) int {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	dir, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "quickstart.exe") // Windows requires the ending
	code := run(exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, home+router), stderr, stderr)
	if code == 0 {
		code = run(exec.CommandContext(ctx, program, args...), stdout, stderr)
	}
	return code
}

// run runs a program and returns its exit code, or 1 if it has none.
func run(cmd *exec.Cmd, stdout, stderr io.Writer) int {
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	if err != nil && (cmd.ProcessState == nil || !cmd.ProcessState.Success()) { // a cancelled program may have ended with 0
		fmt.Fprintf(stderr, "quickstart: %s: %v\n", filepath.Base(cmd.Path), err)
		return 1
	}
	return 0
}
