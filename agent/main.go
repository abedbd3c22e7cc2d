package agent

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/enroll"
	"github.com/capstan-dev/capstan/agent/metrics"
	"github.com/capstan-dev/capstan/agent/preflight"
)

// softMemory is the memory, in bytes, that Go's runtime tries not to exceed. The pages of the program itself need
// another 11 MiB; together they stay below 30 MiB (TestTheAgentNeeds30MiB).
const softMemory = 16 << 20

// limitMemory makes the runtime collect garbage early and return memory, unless the environment overrides this. A
// hundred agents may run on one machine, and each allocates little, so frequent collections are cheap.
func limitMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(40)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
}

// Main runs the program capstan-agent and returns its exit code: 0 if it was asked to stop, has enrolled, or found
// nothing missing; 1 on an error or if something is missing; 2 for wrong arguments. version is the program's version.
func Main(version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "enroll" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return enroll.Main(ctx, version, args[1:], stdin, stdout, stderr)
	}
	if len(args) > 0 && args[0] == "preflight" {
		return preflight.Main(preflight.This(), args[1:], stdout, stderr)
	}
	flags := flag.NewFlagSet("capstan-agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	path := flags.String("config", config.DefaultPath, "path of the `file` with the configuration")
	metricsAddress := flags.String("metrics-bind-address", "", "serve metrics at this `address`, like 127.0.0.1:9464, "+
		"or :9464 for this computer alone; empty serves none")
	showVersion := flags.Bool("version", false, "print the version and exit")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "capstan-agent makes this computer a host of a Capstan inventory.\n\n"+
			"  capstan-agent             run as a service\n"+
			"  capstan-agent enroll      enroll this computer: see capstan-agent enroll --help\n"+
			"  capstan-agent preflight   report what this computer lacks as a node: see capstan-agent preflight --help\n\n"+
			"Flags:")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if err == flag.ErrHelp {
			return 0
		}
		return 2
	}
	if *showVersion {
		fmt.Fprintln(stdout, "capstan-agent", version)
		return 0
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "capstan-agent: unknown argument %q; see capstan-agent --help\n", flags.Arg(0))
		return 2
	}
	listen, err := metrics.Address(*metricsAddress)
	if err != nil {
		fmt.Fprintf(stderr, "capstan-agent: --metrics-bind-address %v\n", err)
		return 2
	}
	limitMemory()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := Run(ctx, *path, version, listen, slog.New(slog.NewTextHandler(stderr, nil))); err != nil {
		fmt.Fprintln(stderr, "capstan-agent:", err)
		return 1
	}
	return 0
}
