// Critest runs the validation suite of the Container Runtime Interface (cri-tools), unchanged, against the CRI server
// of a local host, whose containers are real.
//
//	go run ./hack/critest                         # as the user that runs it
//	go run ./hack/critest -user 65534             # as another user, for root: a host with one id
//	go run ./hack/critest -user 65534 -subordinate   # the same with subordinate ids
//	go run ./hack/critest -focus 'portforward'    # some tests
//
// Images come from a registry on loopback: package test/images builds them. test/critest/expected.yaml lists the tests
// that can't pass, and what they lack; the exit status is 1 if a test has an unexpected result. bin/reports/critest has
// the report, the table and the log of the server. Binaries and the bundle must be built (make build).
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/test/asuser"
	"github.com/capstan-dev/capstan/test/images"
	"github.com/capstan-dev/capstan/test/verdicts"
)

// The suite.
const (
	suiteModule = "sigs.k8s.io/cri-tools@v1.36.0"
	suiteSum    = "h1:Xt+LLvBVH1Fnp/AR2EyHApyWS/88y2KlWjlDc2HR+aw="
	suiteName   = "critest-v1.36.0"
)

// limit is the time limit for everything after the builds.
const limit = 40 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options say what to run.
type options struct {
	root, focus string
	user        int
	subordinate bool
	// level says which ids hosts of this user have.
	level verdicts.Level
	// images is the path of the OCI layout, which already exists.
	images string
	out    io.Writer
	errs   io.Writer
}

func command(ctx context.Context, args []string, out, errs io.Writer) int {
	o := options{out: out, errs: errs}
	flags := flag.NewFlagSet("critest", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.focus, "focus", "", "run only tests whose names match this regular expression")
	flags.IntVar(&o.user, "user", 0, "for root: the id of the user to run as")
	flags.BoolVar(&o.subordinate, "subordinate", false, "with -user: give that user subordinate ids")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var err error
	if o.root, err = os.Getwd(); err == nil {
		err = o.prepare(ctx)
	}
	if err == nil && o.user != 0 && os.Getuid() == 0 {
		err = asuser.Run(ctx, asuser.Options{ID: o.user, Subordinate: o.subordinate, Args: args, Dir: o.root,
			Writes: []string{o.reports()}, Out: out, Errs: errs})
	} else if err == nil {
		err = o.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(errs, "critest:", err)
		return 1
	}
	return 0
}

func (o *options) bin(parts ...string) string {
	return filepath.Join(append([]string{o.root, "bin"}, parts...)...)
}

// prepare builds the suite and the images. For a user without Go, both are already built.
func (o *options) prepare(ctx context.Context) error {
	if asuser.Is() {
		o.images = o.bin("testimages", "critest")
		return nil
	}
	for _, name := range []string{"capstan-dock", "capstan-images"} {
		if _, err := os.Stat(o.bin(name)); err != nil {
			return fmt.Errorf("%w: run make build first", err)
		}
	}
	if _, err := os.Stat(o.bin(suiteName)); err != nil {
		fmt.Fprintln(o.errs, "→ building", suiteName)
		dir, err := images.Sources(ctx, suiteModule, suiteSum)
		if err != nil {
			return err
		}
		build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", o.bin(suiteName),
			"./cmd/critest")
		build.Dir = dir
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
		build.Stdout, build.Stderr = o.errs, o.errs
		if err := build.Run(); err != nil {
			return fmt.Errorf("building the suite: %w", err)
		}
	}
	var err error
	o.images, err = images.Make(ctx, o.root, o.bin("testimages"), "critest", func(text string) {
		fmt.Fprintln(o.errs, "→", text)
	})
	return err
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
	return o.bin("reports", "critest", name)
}

// run runs the suite on a host and compares its verdicts with the expected ones.
func (o *options) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	expected, err := verdicts.ReadExpected(filepath.Join(o.root, "test", "critest", "expected.yaml"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.reports(), 0o755); err != nil {
		return err
	}
	report := filepath.Join(o.reports(), "junit.xml")
	if err := os.RemoveAll(report); err != nil {
		return err
	}
	if err := o.suite(ctx, report); err != nil {
		return err
	}
	all, err := verdicts.ReadFile(report)
	if err != nil {
		return err
	}
	table := verdicts.Table(all, expected, o.level)
	if err := os.WriteFile(filepath.Join(o.reports(), "table.txt"), []byte(table), 0o644); err != nil {
		return err
	}
	fmt.Fprint(o.out, table)
	differences := verdicts.Compare(all, expected, o.level, o.focus == "")
	for _, d := range differences {
		fmt.Fprintln(o.errs, d)
	}
	if len(differences) > 0 {
		return fmt.Errorf("%d tests have other results than test/critest/expected.yaml; %s has the logs", len(differences),
			o.reports())
	}
	return nil
}
