package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	hints "github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/internal/steps"
	"github.com/capstan-dev/capstan/internal/text"
	"github.com/capstan-dev/capstan/local"
)

// version is set by the build.
var version = "dev"

// defaultNamespace is the default namespace of clusters and hosts.
const defaultNamespace = "default"

// app is what all commands share: where things are and where to write.
type app struct {
	homeFlag  string
	namespace string
	in        io.Reader
	out       io.Writer // results
	err       io.Writer // progress and everything else
	terminal  io.Writer // err, for lines that are redrawn
	raw       io.Writer // out, for data that is not text
	home      home.Dir
	bin       home.Binaries
}

// hint returns an error made from format and args, with advice.
func hint(advice, format string, args ...any) error { return hints.Errorf(advice, format, args...) }

// run is main without the process: it returns the exit code. program is the name by which the binary was called.
func run(program string, args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The same binary is kubectl when called by that name, which puts kubectl into PATH without a plug-in.
	if filepath.Base(program) == "kubectl" {
		args = append([]string{"kubectl"}, args...)
	}
	// Names, messages and conditions come from tenants, hosts and extensions, and must not control the user's terminal.
	a := &app{in: in, out: text.Writer(out), err: text.Writer(errOut), terminal: errOut, raw: out}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root, misspelled(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(a.err, "Error: %v\n", err)
	if advice := hints.Of(err); advice != "" {
		fmt.Fprintf(a.err, "Hint: %s\n", advice)
	}
	return exitCode(cmd, err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "capstan",
		Short: "Turns Linux machines you own into Kubernetes clusters, through Cluster API",
		Long: `Capstan turns Linux machines you own into Kubernetes clusters, through Cluster API.

  capstan up                            start the management plane on this machine
  capstan cluster create demo           create a cluster: 1 control plane, 2 workers
  capstan cluster describe demo         show it: machines, hosts, conditions, hooks
  capstan kubectl --cluster demo get nodes
  capstan down --delete                 stop everything and remove it`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			dir, err := home.Find(a.homeFlag, os.Getenv)
			if err != nil {
				return err
			}
			a.home = dir
			a.bin, err = home.FindBinaries()
			return err
		},
	}
	root.PersistentFlags().StringVar(&a.homeFlag, "home", "",
		"directory for all data (default: CAPSTAN_HOME, else ~/.local/share/capstan)")
	root.PersistentFlags().StringVarP(&a.namespace, "namespace", "n", defaultNamespace, "namespace of clusters and hosts")
	root.AddGroup(
		&cobra.Group{ID: "plane", Title: "The management plane:"},
		&cobra.Group{ID: "work", Title: "Clusters and hosts:"},
	)
	for _, c := range []*cobra.Command{a.upCommand(), a.downCommand(), a.statusCommand()} {
		c.GroupID = "plane"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{
		a.clusterCommand(), a.hostCommand(), a.bundleCommand(), a.imageCommand(), a.hookCommand(), a.backupCommand(),
		a.kubectlCommand(), a.clusterctlCommand(),
	} {
		c.GroupID = "work"
		root.AddCommand(c)
	}
	root.AddCommand(a.planeCommand(), a.verifyCommand())
	checkArguments(root)
	return root
}

// steps returns a printer of progress on stderr.
func (a *app) steps() *steps.Printer {
	if a.terminal != nil {
		return steps.New(a.terminal)
	}
	return steps.New(a.err)
}

// progress returns a function that prints the events of package local on stderr.
func (a *app) progress() local.Progress {
	p := a.steps()
	return func(e local.Event) {
		switch e.Kind {
		case local.StepStarted:
			p.Start(e.Step)
		case local.StepWaiting:
			p.Detail(e.Text)
		case local.StepDone:
			p.Done()
		case local.StepFailed:
			p.Fail()
		case local.Note:
			fmt.Fprintln(a.err, e.Text)
		}
	}
}

// next prints commands that the user may type next. It adds the current namespace to commands about clusters and hosts.
func (a *app) next(lines ...string) {
	fmt.Fprintln(a.err, "\nNext:")
	for _, l := range lines {
		fmt.Fprintf(a.err, "  %s\n", inNamespace(l, a.namespace))
	}
}

// inNamespace returns a command line that does the same in a namespace. Pure.
func inNamespace(line, namespace string) string {
	rest, ours := strings.CutPrefix(line, "capstan ")
	if !ours || namespace == "" || namespace == defaultNamespace {
		return line
	}
	word, arguments, _ := strings.Cut(rest, " ")
	switch word {
	case "cluster", "host", "backup", "hook":
		return "capstan -n " + namespace + " " + rest
	case "kubectl":
		if cluster, of := strings.CutPrefix(arguments, "--cluster "); of {
			return "capstan kubectl --cluster " + namespace + "/" + cluster
		}
		return "capstan kubectl -n " + namespace + " " + arguments
	}
	return line
}
