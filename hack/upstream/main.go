// Upstream runs Cluster API's own end-to-end specs, unchanged, on a plane started by capstan up.
//
//	go run ./hack/upstream                          # all specs that can run: takes hours
//	go run ./hack/upstream QuickStart NodeDrain     # two of them
//	go run ./hack/upstream -cluster-api DIR         # the specs of a checkout of Cluster API
//	go run ./hack/upstream -record                  # puts the verdicts of the last run into the table of the docs
//
// The specs come from the module sigs.k8s.io/cluster-api/test, which test/upstream requires. Configuration and
// templates are made from that module's files and from ours, in a temporary directory. test/upstream/specs.yaml lists
// the specs, the differences from upstream's own set-up, and the specs that are not called. The exit status is 1 if a
// spec does not pass.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options say what to run.
type options struct {
	// root is the root of our sources.
	root string
	// clusterAPI is a checkout of Cluster API. Empty: the modules that test/upstream requires.
	clusterAPI string
	// hosts is the size of the plane's inventory.
	hosts int
	// timeout limits all specs together.
	timeout time.Duration
	// record records the last run instead of running specs.
	record bool
	// names are the specs to run. Empty: all.
	names []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func command(ctx context.Context, args []string, out, errs io.Writer) int {
	var o options
	flags := flag.NewFlagSet("upstream", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.clusterAPI, "cluster-api", "", "directory of a checkout of Cluster API")
	flags.IntVar(&o.hosts, "hosts", 16, "number of local hosts")
	flags.DurationVar(&o.timeout, "timeout", 6*time.Hour, "how long all specs may take")
	flags.BoolVar(&o.record, "record", false, "record the verdicts of the last run in test/upstream and docs")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	o.names = flags.Args()
	var err error
	switch o.root, err = os.Getwd(); {
	case err != nil:
	case o.record:
		err = record(o.root)
	default:
		err = o.run(ctx, out, errs)
	}
	if err != nil {
		fmt.Fprintln(errs, "upstream:", err)
		return 1
	}
	return 0
}

// run builds the suite, starts a plane, runs the specs on it and reports the results.
func (o options) run(ctx context.Context, out, errs io.Writer) (err error) {
	table, err := readSpecs(filepath.Join(o.root, "test", "upstream", "specs.yaml"))
	if err != nil {
		return err
	}
	chosen, err := choose(table, o.names)
	if err != nil {
		return err
	}
	if err := bundled(o.root, chosen); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "capstan-upstream-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := suite{root: o.root, dir: dir, binary: filepath.Join(dir, "suite.test"), out: out, errs: errs}
	if err := s.build(ctx, o.clusterAPI); err != nil {
		return err
	}
	p := plane{capstan: filepath.Join(o.root, "bin", "capstan"), home: filepath.Join(dir, "home")}
	fmt.Fprintln(errs, "→ starting a plane")
	defer func() {
		if downErr := p.down(); err == nil {
			err = downErr
		}
	}()
	if err := p.up(ctx, o.hosts); err != nil {
		return err
	}
	for _, name := range extensions(chosen) {
		if err := s.install(ctx, p, name); err != nil {
			return err
		}
	}
	config, err := s.configure(ctx, p)
	if err != nil {
		return err
	}
	about, err := o.about(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := s.run(ctx, p, config, chosen, about); err != nil {
		return err
	}
	verdicts, err := readVerdicts(s.artifacts())
	if err != nil {
		return err
	}
	if failed := report(out, table, chosen, verdicts); failed > 0 {
		return fmt.Errorf("%d of %d specs did not pass; %s has their logs and objects",
			failed, len(chosen), s.artifacts())
	}
	return nil
}
