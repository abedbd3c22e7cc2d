package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/test/verdicts"
)

// clusterName is the cluster that specs run on.
const clusterName = "conformance"

// downTimeout limits how long a plane with all hosts may take to stop.
const downTimeout = 5 * time.Minute

// cluster is the cluster that specs run on: a new one, with a plane of its own, or an existing one that the user gave.
type cluster struct {
	capstan, home       string
	kubeconfig, kubectl string
	// remove lists what is removed at the end. It is empty if the plane stays.
	remove []string
	// keep is true if the plane stays at the end. given is true if there is no plane, because the user gave the cluster.
	keep, given bool
}

// cluster returns the given cluster, or starts a plane with one.
func (o *options) cluster(ctx context.Context) (c *cluster, err error) {
	temp, err := os.MkdirTemp("", "capstan-conformance-")
	if err != nil {
		return nil, err
	}
	c = &cluster{capstan: o.bin("capstan"), home: o.home, keep: o.keep, given: o.kubeconfig != "", remove: []string{temp},
		kubectl: filepath.Join(temp, "kubectl"), kubeconfig: o.kubeconfig}
	if c.home == "" {
		c.home = filepath.Join(temp, "home")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	version, err := o.version()
	if err != nil {
		return c, err
	}
	if err := os.Symlink(o.bin("bundles", version, "capstan-kube"), c.kubectl); err != nil || c.given {
		return c, err
	}
	c.kubeconfig = filepath.Join(temp, "kubeconfig")
	return c, o.start(ctx, c)
}

// start starts a plane with the images, creates the cluster if it does not exist, and writes its kubeconfig.
func (o *options) start(ctx context.Context, c *cluster) error {
	fmt.Fprintln(o.errs, "→ starting a plane")
	if _, err := c.run(ctx, "up", "--hosts", "3"); err != nil {
		return err
	}
	if !o.hollow {
		fmt.Fprintln(o.errs, "→ loading the images")
		if _, err := c.run(ctx, "image", "load", o.bin("testimages", o.images)); err != nil {
			return err
		}
	}
	if _, err := c.run(ctx, "kubectl", "get", "cluster", clusterName); err != nil {
		fmt.Fprintln(o.errs, "→ making the cluster")
		args := []string{"cluster", "create", clusterName, "--control-plane", "1", "--workers", "2"}
		if o.hollow {
			args = append(args, "--hollow")
		}
		if _, err := c.run(ctx, args...); err != nil {
			return err
		}
	}
	config, err := c.run(ctx, "cluster", "kubeconfig", clusterName)
	if err != nil {
		return err
	}
	return os.WriteFile(c.kubeconfig, config, 0o600)
}

// level reads from the Nodes' labels how many ids containers can have.
func (o *options) level(ctx context.Context, c *cluster) (verdicts.Level, error) {
	switch {
	case c.given:
		return verdicts.Owned, nil
	case o.hollow:
		return verdicts.OneID, nil
	}
	labels, err := c.run(ctx, "kubectl", "--cluster", clusterName, "get", "nodes", "--output",
		`jsonpath={.items[*].metadata.labels.capstan\.dev/ids}`)
	if err != nil {
		return "", err
	}
	level := levelOf(strings.Fields(string(labels)), os.Getuid())
	if o.subordinate && level != verdicts.SubordinateIDs {
		return "", fmt.Errorf("containers have %s ids: newuidmap must be installed and setuid root", level)
	}
	return level, nil
}

// levelOf derives the level from the Nodes' labels and the user. Pure.
func levelOf(labels []string, uid int) verdicts.Level {
	switch {
	case len(labels) == 0 || slices.ContainsFunc(labels, func(ids string) bool { return ids != "all" }):
		return verdicts.OneID
	case uid == 0:
		return verdicts.AllIDs
	}
	return verdicts.SubordinateIDs
}

// run runs capstan and returns what it printed to stdout.
func (c *cluster) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.capstan, args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+c.home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("capstan %s: %w\n%s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out.Bytes(), nil
}

// close removes the plane unless it stays, even if the run was interrupted.
func (c *cluster) close() error {
	var err error
	if !c.keep && !c.given {
		ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
		defer cancel()
		_, err = c.run(ctx, "down", "--delete")
	}
	if err == nil {
		for _, path := range c.remove {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}
