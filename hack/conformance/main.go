// Conformance runs the conformance tests of Kubernetes, unchanged and without skips, against a local cluster of one
// control plane and two workers.
//
//	go run ./hack/conformance                           # continues after the last part, for 40 minutes
//	go run ./hack/conformance -again                    # starts over
//	go run ./hack/conformance 'sig-network.*Services'   # some specs, by regular expressions
//	go run ./hack/conformance -list test/conformance/ci.txt
//	go run ./hack/conformance -user 65534               # as another user, for root: hosts with one id
//	go run ./hack/conformance -user 65534 -subordinate  # the same with subordinate ids
//	go run ./hack/conformance -hollow                   # pods without processes: only specs that need none
//	go run ./hack/conformance -home DIR -keep           # a cluster that stays and is reused
//	go run ./hack/conformance -kubeconfig FILE          # a cluster of yours, whose Nodes have the images
//	go run ./hack/conformance -prepare                  # only builds the suite and the images
//
// A run tests one commit, in parts: a spec with a verdict does not run again, and a spec that fails runs three times.
// Results are in bin/reports/conformance: e2e.log and junit_01.xml, in the format of hydrophone and sonobuoy, table.txt
// and progress.json. test/conformance/expected.yaml lists the specs that can't pass, and what they lack. The exit
// status is 1 if a spec has an unexpected result, 3 if specs are left for another part. Everything must be built (make
// build).
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/test/asuser"
	"github.com/capstan-dev/capstan/test/images"
	"github.com/capstan-dev/capstan/test/verdicts"
)

// exitLeft is the exit status if specs are left for another part.
const exitLeft = 3

var errLeft = errors.New("specs are left: run this command again for the next part")

// options say what to run.
type options struct {
	root, home, list string
	// images is the name of the suite in test/images/table.yaml whose images are used.
	images       string
	again        bool
	keep, hollow bool
	// kubeconfig is the kubeconfig of an existing cluster; prepareOnly means that no spec runs.
	kubeconfig     string
	prepareOnly    bool
	subordinate    bool
	user, parallel int
	limit          time.Duration
	// names are regular expressions that select specs. Empty: all.
	names     []string
	out, errs io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func command(ctx context.Context, args []string, out, errs io.Writer) int {
	o := options{out: out, errs: errs}
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.BoolVar(&o.again, "again", false, "start over: forget the results of earlier parts")
	flags.BoolVar(&o.hollow, "hollow", false, "run against hollow pods")
	flags.BoolVar(&o.keep, "keep", false, "leave plane and cluster as they are at the end")
	flags.StringVar(&o.home, "home", "", "home directory of the plane; default: a temporary one")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "run against this cluster of a stock Kubernetes, whose Nodes have "+
		"the images")
	flags.BoolVar(&o.prepareOnly, "prepare", false, "only build the suite and the images")
	flags.StringVar(&o.list, "list", "", "file with the names of specs, one a line")
	flags.StringVar(&o.images, "images", "conformance", "which images of test/images/table.yaml: conformance, or list "+
		"for those that test/conformance/ci.txt needs")
	flags.IntVar(&o.parallel, "parallel", 3, "how many specs run at a time, except those that must run alone")
	flags.IntVar(&o.user, "user", 0, "for root: the id of the user to run as")
	flags.BoolVar(&o.subordinate, "subordinate", false, "with -user: give that user subordinate ids")
	flags.DurationVar(&o.limit, "limit", 40*time.Minute, "how long this part may take")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	o.names = flags.Args()
	if o.kubeconfig != "" && (o.hollow || o.keep || o.home != "" || o.user != 0) {
		fmt.Fprintln(errs, "conformance: -kubeconfig selects an existing cluster, but -home, -keep, -user and -hollow are "+
			"for a new one")
		return 2
	}
	var err error
	if o.kubeconfig != "" { // specs run in other directories
		o.kubeconfig, err = filepath.Abs(o.kubeconfig)
	}
	if err == nil {
		o.root, err = os.Getwd()
	}
	if err == nil && !asuser.Is() {
		err = o.prepare(ctx)
	}
	switch {
	case err != nil || o.prepareOnly:
	case o.user != 0 && os.Getuid() == 0:
		err = asuser.Run(ctx, asuser.Options{ID: o.user, Subordinate: o.subordinate, Args: args, Dir: o.root,
			Writes: []string{o.reports()}, Out: out, Errs: errs})
	default:
		err = o.run(ctx)
	}
	switch {
	case errors.Is(err, errLeft):
		fmt.Fprintln(errs, "conformance:", err)
		return exitLeft
	case err != nil:
		fmt.Fprintln(errs, "conformance:", err)
		return 1
	}
	return 0
}

func (o *options) bin(parts ...string) string {
	return filepath.Join(append([]string{o.root, "bin"}, parts...)...)
}

func (o *options) reports() string {
	id := os.Getuid()
	if o.user != 0 {
		id = o.user
	}
	name := strconv.Itoa(id)
	if o.subordinate {
		name += "-subordinate"
	}
	if o.hollow {
		name += "-hollow"
	}
	if o.kubeconfig != "" {
		name = string(verdicts.Owned)
	}
	return o.bin("reports", "conformance", name)
}

// prepare builds the suite and the images.
func (o *options) prepare(ctx context.Context) error {
	if err := o.build(ctx); err != nil {
		return err
	}
	if o.hollow {
		return nil
	}
	_, err := images.Make(ctx, o.root, o.bin("testimages"), o.images, func(text string) {
		fmt.Fprintln(o.errs, "→", text)
	})
	return err
}

// run runs a part, and compares all verdicts with the expected ones.
func (o *options) run(ctx context.Context) (err error) {
	until := time.Now().Add(o.limit)
	all, err := o.specs()
	if err != nil {
		return err
	}
	chosen, err := o.choose(all)
	if err != nil {
		return err
	}
	expected, err := verdicts.ReadExpected(filepath.Join(o.root, "test", "conformance", "expected.yaml"))
	if err != nil {
		return err
	}
	p, err := o.progress(ctx)
	if err != nil {
		return err
	}
	if left := p.left(chosen); len(left) > 0 {
		if err := o.part(ctx, p, chosen, expected, until); err != nil {
			return err
		}
	}
	final := p.verdicts(chosen)
	if err := o.report(final, p.Level); err != nil {
		return err
	}
	fmt.Fprint(o.out, verdicts.Table(final, expected, p.Level))
	for _, name := range p.unsteady() {
		fmt.Fprintln(o.out, "had different results in different attempts:", name)
	}
	left := p.left(chosen)
	fmt.Fprintf(o.out, "%d of %d specs of commit %s have a verdict\n", len(chosen)-len(left), len(chosen), p.Commit)
	if o.hollow { // a spec that needs a process fails there
		return nil
	}
	differences := verdicts.Compare(final, expected, p.Level, len(chosen) == len(all) && len(left) == 0)
	for _, d := range differences {
		fmt.Fprintln(o.errs, d)
	}
	switch {
	case len(differences) > 0:
		return fmt.Errorf("%d specs have other results than test/conformance/expected.yaml; %s has the logs",
			len(differences), o.reports())
	case len(left) > 0:
		return errLeft
	}
	return nil
}

// part runs the remaining specs on a cluster until the time is over.
func (o *options) part(
	ctx context.Context, p *progress, chosen []string, expected []verdicts.Expected, until time.Time,
) (err error) {
	c, err := o.cluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if p.Level, err = o.level(ctx, c); err != nil {
		return err
	}
	for {
		phase, alone := p.next(chosen, expected)
		if len(phase) == 0 || time.Until(until) < least || ctx.Err() != nil {
			return ctx.Err()
		}
		workers := max(o.parallel, 1)
		if alone {
			workers = 1
		}
		fmt.Fprintf(o.errs, "→ %d specs, %d at a time; %d are left, and %s\n", len(phase), workers,
			len(p.left(chosen)), time.Until(until).Round(time.Second))
		if o.list == "" { // the order of a list is deliberate
			phase = apart(phase)
		}
		// A spec that fails is slow, because it waits for its time limit.
		slow := func(name string) bool { return fails(expected, name, p.Level) }
		run := func(list []string) error {
			end := limit(list, slow, time.Now(), until)
			got, err := o.runList(ctx, c, list, end)
			if err != nil {
				return err
			}
			if ctx.Err() == nil {
				got = overdue(list, got, time.Now(), end, until)
			}
			for _, v := range got {
				if v.Outcome != verdicts.Passed {
					fmt.Fprintf(o.errs, "  %s: %s\n", v.Outcome, strings.TrimSpace(v.Name))
				}
			}
			if ctx.Err() != nil || !time.Now().Before(until) {
				list = namesOf(got) // the others did not run: they are left for another part
			}
			return p.add(list, got)
		}
		if err := deal(ctx, split(phase, workers, slow), workers, until, run); err != nil {
			return err
		}
	}
}

// least is the minimum time that must be left to start further specs.
const least = time.Minute
