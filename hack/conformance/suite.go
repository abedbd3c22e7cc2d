package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/test/images"
	"github.com/capstan-dev/capstan/test/verdicts"
)

// version returns the Kubernetes release.
func (o *options) version() (string, error) {
	text, err := os.ReadFile(filepath.Join(o.root, "kube", "DEFAULT_VERSION"))
	return strings.TrimSpace(string(text)), err
}

// binary returns the path of the suite's binary, whose name contains the release.
func (o *options) binary(version string) string { return o.bin("e2e-" + version + ".test") }

// build builds the suite and keeps the binary. With empty caches, that takes minutes.
func (o *options) build(ctx context.Context) error {
	version, err := o.version()
	if err != nil {
		return err
	}
	for _, name := range []string{"capstan", "capstan-dock", "capstan-images"} {
		if _, err := os.Stat(o.bin(name)); err != nil {
			return fmt.Errorf("%w: run make build first", err)
		}
	}
	if err := o.keepList(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(o.binary(version)); err == nil {
		return nil
	}
	fmt.Fprintln(o.errs, "→ building the suite of", version)
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	ldflags := "-s -w"
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for name, value := range map[string]string{
			"gitVersion": version, "gitMajor": parts[0], "gitMinor": parts[1], "gitTreeState": "clean",
			"gitCommit": "k8s.io/kubernetes@" + version,
		} {
			ldflags += fmt.Sprintf(" -X %s.%s=%s", pkg, name, value)
		}
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags", ldflags, "-o", o.binary(version),
		"k8s.io/kubernetes/test/e2e")
	cmd.Dir = filepath.Join(o.root, images.Suite)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	cmd.Stdout, cmd.Stderr = o.errs, o.errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building the suite: %w", err)
	}
	return nil
}

// runList runs specs one after the other in one process, and adds what it prints to e2e.log.
func (o *options) runList(
	ctx context.Context, c *cluster, list []string, until time.Time,
) ([]verdicts.Verdict, error) {
	version, err := o.version()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "capstan-e2e-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	quoted := make([]string, len(list))
	for n, name := range list {
		quoted[n] = regexp.QuoteMeta(name)
	}
	cmd := exec.CommandContext(ctx, o.binary(version),
		"-kubeconfig="+c.kubeconfig, "-kubectl-path="+c.kubectl, "-provider=skeleton", "-report-dir="+dir,
		"-e2e-output-dir="+dir, "-ginkgo.v", "-ginkgo.no-color", "-ginkgo.silence-skips",
		"-ginkgo.timeout="+time.Until(until).Round(time.Second).String(),
		"-ginkgo.focus=("+strings.Join(quoted, "|")+")$")
	var said bytes.Buffer
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "TMPDIR="+dir) // specs leave files behind
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	runErr := cmd.Run()
	if err := o.appendLog(said.Bytes()); err != nil {
		return nil, err
	}
	got, err := verdicts.ReadFile(filepath.Join(dir, "junit_01.xml"))
	if err != nil {
		return nil, fmt.Errorf("running %d specs from %q on: %w: %w; e2e.log has the output", len(list), list[0], runErr,
			err)
	}
	return got, nil
}

var logLock sync.Mutex

// appendLog appends what a process has printed.
func (o *options) appendLog(text []byte) error {
	logLock.Lock()
	defer logLock.Unlock()
	f, err := os.OpenFile(filepath.Join(o.reports(), "e2e.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
