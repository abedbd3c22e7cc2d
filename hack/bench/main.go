// Command bench measures Capstan as a user experiences it: it runs the built binaries in a directory of its own, and Go
// benchmarks, and prints each figure next to the bound that the project has set itself.
//
//	go run ./hack/bench                       # for root: as root, and as an ordinary user whose hosts have one id
//	go run ./hack/bench -level one            # as an ordinary user only; "-level root", "-level subordinate"
//	go run ./hack/bench -parts clusters       # without the Go benchmarks; "-parts benchmarks": only those
//	go run ./hack/bench -parts benchmarks -packages run
//	go run ./hack/bench -record               # also write the figures to docs/figures.md
//	go run ./hack/bench -o json               # for machines; "-from FILE -record" records such figures later
//	go run ./hack/bench -build                # instead: the bundle from an empty cache, now and before real pods
//	go run ./hack/bench -extensions 5         # instead: what the plane's own extensions cost
//
// Figures depend on the machine and on its other work: compare figures of one run, or of the same run before and after
// a change. The exit status is 1 if something could not be measured, and 3 if a figure misses its bound.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/test/asuser"
)

// exitMissed is the exit status if everything was measured and a figure misses its bound.
const exitMissed = 3

// nobody is the ordinary user that root switches to.
const nobody = 65534

// downTimeout limits how long a plane may take to stop.
const downTimeout = 5 * time.Minute

type options struct {
	level, parts, output      string
	from, packages            string
	record, build             bool
	life, ha, keep            bool
	extensions                int
	out, errs                 io.Writer
	asked                     []string // levels
	withClusters, withGoTests bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func command(ctx context.Context, args []string, out, errs io.Writer) int {
	o := options{out: out, errs: errs}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.level, "level", "", "for root: whose clusters to measure: root, one (an ordinary user with one "+
		"id), subordinate (an ordinary user with subordinate ids), or several, separated by commas; default: root,one")
	flags.StringVar(&o.parts, "parts", "clusters,benchmarks", "what is measured")
	flags.StringVar(&o.packages, "packages", ".", "a `regexp` of packages whose benchmarks run")
	flags.StringVar(&o.output, "o", "table", "how figures are printed: table or json")
	flags.BoolVar(&o.record, "record", false, "also write the figures to "+recordFile+" and "+pageFile)
	flags.StringVar(&o.from, "from", "", "instead: take the figures from a `file` that -o json has printed")
	flags.BoolVar(&o.build, "build", false, "instead: build the bundle from an empty cache, twice")
	flags.BoolVar(&o.life, "life", true, "also measure the later life of a cluster")
	flags.BoolVar(&o.ha, "ha", true, "also measure a cluster with three control plane machines")
	flags.BoolVar(&o.keep, "keep", false, "leave everything running at the end")
	flags.IntVar(&o.extensions, "extensions", 0,
		"instead: compare the plane with and without its own extensions: create and upgrade this many clusters of each")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := o.check(flags.Args()); err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return 2
	}
	figures, err := o.run(ctx)
	// Figures measured before a failure are still reported.
	if err := errors.Join(err, o.report(figures)); err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return 1
	}
	if !asuser.Is() && slices.ContainsFunc(figures, func(f figure) bool { return f.misses(f.Bound) }) {
		return exitMissed
	}
	return 0
}

// check rejects options that make no sense together.
func (o *options) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unknown arguments %q", rest)
	}
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("-o is %q: use table or json", o.output)
	}
	for part := range strings.SplitSeq(o.parts, ",") {
		switch part {
		case "clusters":
			o.withClusters = true
		case "benchmarks":
			o.withGoTests = true
		default:
			return fmt.Errorf("-parts has %q: use clusters and benchmarks", part)
		}
	}
	if os.Getuid() != 0 {
		if o.level != "" {
			return errors.New("-level is for root: an ordinary user has one level")
		}
		return nil
	}
	o.asked = []string{"root", "one"}
	if o.level != "" {
		o.asked = strings.Split(o.level, ",")
	}
	for _, level := range o.asked {
		if level != "root" && level != "one" && level != "subordinate" {
			return fmt.Errorf("-level has %q: use root, one and subordinate", level)
		}
	}
	return nil
}

// run measures what the options request.
func (o *options) run(ctx context.Context) ([]figure, error) {
	switch {
	case asuser.Is():
		return o.clusters(ctx)
	case o.from != "":
		return readRecord(o.from)
	case o.extensions > 0:
		return nil, o.withPlane(func(b *bench) error { return b.compareExtensions(ctx, o.extensions) })
	}
	commit, err := commit(ctx)
	if err != nil {
		return nil, err
	}
	var all []figure
	if o.build {
		all, err = coldBuilds(ctx)
	} else {
		all, err = o.all(ctx)
	}
	for i := range all {
		all[i].Commit = commit
	}
	return all, err
}

// all measures clusters at each level, and runs the Go benchmarks.
func (o *options) all(ctx context.Context) (all []figure, err error) {
	if o.withClusters {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join("bin", "web"), "./hack/web")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building hack/web: %w\n%s", err, out)
		}
		all, err = o.levels(ctx)
	}
	chosen, wrong := regexp.Compile(o.packages)
	if wrong != nil {
		return all, errors.Join(err, fmt.Errorf("-packages: %w", wrong))
	}
	for _, s := range suites {
		if o.withGoTests && chosen.MatchString(s.pkg) && ctx.Err() == nil {
			measured, failed := s.run(ctx)
			all, err = append(all, measured...), errors.Join(err, failed)
		}
	}
	return all, err
}

// levels measures clusters at each requested level.
func (o *options) levels(ctx context.Context) (all []figure, err error) {
	if os.Getuid() != 0 {
		return o.clusters(ctx)
	}
	for _, level := range o.asked {
		fmt.Fprintf(o.errs, "→ clusters, level %s\n", level)
		var measured []figure
		var failed error
		if level == "root" {
			measured, failed = o.clusters(ctx)
		} else {
			measured, failed = o.asUser(ctx, level == "subordinate")
		}
		all, err = append(all, measured...), errors.Join(err, failed)
		if ctx.Err() != nil {
			break
		}
	}
	return all, err
}

// asUser measures clusters as an ordinary user, without later operations on them.
func (o *options) asUser(ctx context.Context, subordinate bool) (all []figure, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = asuser.Run(ctx, asuser.Options{
		ID: nobody, Subordinate: subordinate, Args: []string{"-o", "json", "-life=false"}, Dir: dir, Out: &out, Errs: o.errs,
	})
	if out.Len() > 0 {
		err = errors.Join(err, json.Unmarshal(out.Bytes(), &all))
	}
	return all, err
}

// clusters measures clusters as the current user.
func (o *options) clusters(ctx context.Context) (all []figure, err error) {
	err = o.withPlane(func(b *bench) error {
		err := b.measure(ctx, o.life, o.ha)
		for i := range b.figures { // the first figures were measured before there were Nodes that show the level
			b.figures[i].Level = b.level
		}
		if b.level != "" {
			all = b.figures
		}
		return err
	})
	return all, err
}

// withPlane calls the function do with a home directory for a plane, and removes the directory afterwards.
func (o *options) withPlane(do func(*bench) error) (err error) {
	b, err := newBench()
	if err != nil {
		return err
	}
	if o.keep {
		defer b.say("the plane keeps running; to use it, run: CAPSTAN_HOME=%s %s", b.home, b.capstan)
	} else {
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
			defer cancel()
			err = errors.Join(err, b.do(ctx, "down", "--delete"))
		}()
	}
	return do(b)
}

// report prints and records figures.
func (o *options) report(figures []figure) error {
	printTo := printTable
	if o.output == "json" {
		printTo = printJSON
	}
	if len(figures) > 0 {
		if err := printTo(o.out, figures); err != nil {
			return err
		}
	}
	if o.record {
		return record(figures)
	}
	return nil
}

// commit returns the commit of the sources, with a mark if they have changes.
func commit(ctx context.Context) (string, error) {
	head, err := git(ctx, "rev-parse", "--short=9", "HEAD")
	if err != nil {
		return "", err
	}
	changed, err := git(ctx, "status", "--porcelain", "--untracked-files=no")
	if changed != "" {
		head += " and changes"
	}
	return head, err
}
