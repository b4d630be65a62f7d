package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/rejoin-mcp/rejoin/client"
)

const exitCodes = `
Exit codes: 0 a result; 1 the tool failed, or a JSON-RPC error; 2 usage; 3 no answer; 4 the call was left, and its token printed;
5 cancelled or interrupted.`

// app is one run of the command.
type app struct {
	stdin io.Reader
	out   *printer
	code  int // the exit code of a command that ran

	// Flags of all commands.
	traced, traceIDs bool
	headers          []string
	timeout          time.Duration
	headTimeout      time.Duration
	era              string
	// Flags of call and resume.
	args      []string
	object    string
	tokenFile string
	cancel    bool
}

var eras = map[string]client.Era{"auto": client.EraAuto, "legacy": client.EraLegacy, "modern": client.EraModern}

// errTimeout is the cause of a context that ended with --timeout.
var errTimeout = errors.New("--timeout has passed")

func (a *app) commands() *cobra.Command {
	root := &cobra.Command{
		Use:           "rejoin",
		Short:         "Call the tools of MCP servers, over connections that end",
		Long:          "rejoin calls the tools of MCP servers over Streamable HTTP, and polls: a call goes on where its connection ends.\n" + exitCodes,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	flags := root.PersistentFlags()
	flags.BoolVar(&a.traced, "trace", false, "write to stderr what happens on the wire, for bug reports; event ids, which are secrets, are shortened")
	flags.BoolVar(&a.traceIDs, "trace-ids", false, "write event ids out in traces")
	flags.BoolVar(&a.out.json, "json", false, "write messages and the result to stdout as lines of JSON")
	flags.StringArrayVarP(&a.headers, "header", "H", nil, "send `'Name: value'` with every request; may be repeated")
	flags.DurationVar(&a.timeout, "timeout", 0, "stop after that time, as Ctrl-C would")
	flags.DurationVar(&a.headTimeout, "header-timeout", time.Minute,
		"how long an answer may take to begin; servers that answer long calls in plain JSON need more; 0: no limit")

	flags.StringVar(&a.era, "era", "auto", "the `generation` of the protocol: legacy (2025-11-25, polled streams), modern (2026-07-28, tasks),\n"+
		"or auto: modern if the server has tasks there; resume goes by its token")

	call := &cobra.Command{
		Use:   "call URL TOOL",
		Short: "Call a tool",
		Long: "Call a tool. Its result goes to stdout, all else to stderr.\n" +
			"Ctrl-C leaves the call alive on the server and prints a token for 'rejoin resume'.\n" + exitCodes,
		Args: cobra.ExactArgs(2),
		RunE: a.command(func(ctx context.Context, cfg client.Config, args []string) error {
			return a.call(ctx, cfg, args[0], args[1])
		}),
	}
	call.Flags().StringArrayVarP(&a.args, "arg", "a", nil, "an argument, `name=value`; the value is taken as JSON if it is, else as text; may be repeated")
	call.Flags().StringVar(&a.object, "args", "", "the arguments as one JSON `object`; --arg adds to it")

	resume := &cobra.Command{
		Use:   "resume [TOKEN]",
		Short: "Go on with a call that was left",
		Long:  "Go on with a call that was left. The token is the argument, stdin if that is '-', or what is in --token-file.\n" + exitCodes,
		Args:  cobra.MaximumNArgs(1),
		RunE:  a.command(a.resume),
	}
	for _, c := range []*cobra.Command{call, resume} {
		c.Flags().StringVar(&a.tokenFile, "token-file", "", "keep the newest token in `FILE` until the call has ended")
		c.Flags().BoolVar(&a.cancel, "cancel", false, "Ctrl-C cancels the call")
	}
	root.AddCommand(call, resume, &cobra.Command{
		Use:   "tools URL",
		Short: "List the tools of a server",
		Args:  cobra.ExactArgs(1),
		RunE:  a.command(func(ctx context.Context, cfg client.Config, args []string) error { return a.tools(ctx, cfg, args[0]) }),
	}, &cobra.Command{
		Use:   "listen URL",
		Short: "Print what a server says outside of calls, until Ctrl-C",
		Args:  cobra.ExactArgs(1),
		RunE:  a.command(func(ctx context.Context, cfg client.Config, args []string) error { return a.listen(ctx, cfg, args[0]) }),
	})
	return root
}

// command wraps f in what all commands have in common. Errors of f are errors of usage.
func (a *app) command(f func(ctx context.Context, cfg client.Config, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		cfg, err := a.config()
		if err != nil {
			return err
		}
		ctx := c.Context()
		if a.timeout > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, a.timeout, errTimeout)
			defer stop()
		}
		return f(ctx, cfg, args)
	}
}

func (a *app) config() (client.Config, error) {
	hc, err := httpClient(a.headers)
	if err != nil {
		return client.Config{}, err
	}
	era, ok := eras[a.era]
	if !ok {
		return client.Config{}, fmt.Errorf("--era %q: it must be auto, legacy or modern", a.era)
	}
	cfg := client.Config{HTTP: hc, Era: era, Name: "rejoin", Version: version(), OnRequest: a.refuse, Logger: a.out.logger(), HeaderTimeout: a.headTimeout}
	if a.headTimeout <= 0 {
		cfg.HeaderTimeout = -1
	}
	if a.traced || a.traceIDs {
		t := newTracer(a.out.console, a.traceIDs)
		t.say("start", field{"rejoin", version()}, field{"go", runtime.Version()}, field{"os", runtime.GOOS + "/" + runtime.GOARCH})
		a.out.connected = func(protocol string) { t.say("session", field{"protocol", protocol}) }
		cfg.Trace = t.event
	}
	return cfg, nil
}

// version is the module's version, or "devel" if it was built from a working tree.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
